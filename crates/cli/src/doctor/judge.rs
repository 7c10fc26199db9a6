//! What a machine lacks for a project, and what to do about it. Pure: what was seen is given.

use bell_project::agent::{Agent, Program};
use bell_project::load::Loaded;
use bell_project::settings::Runtime;
use bell_runner::cgroup::Ground;
use bell_runner::isolation;
use bell_verify::doctor::{Finding, Level};

use super::machine::Machine;

/// Below this, logs and the store's file have no room to grow for a day.
const SCARCE_BYTES: u64 = 1 << 30;
/// Below this, the store may refuse the next commit.
const FULL_BYTES: u64 = 16 << 20;
/// Schedules go by this machine's clock, to the minute.
const CLOCK_MS: u64 = 5_000;
/// Folders that are watched for each agent, and for the project itself.
const WATCHES_PER_AGENT: u64 = 2;
/// Files that a daemon has open for each run, and for itself.
const FILES_PER_RUN: u64 = 8;
const FILES_OF_DAEMON: u64 = 64;

/// Everything that is to be said about the machine.
pub(super) fn judge(loaded: &Loaded, seen: &Machine) -> Vec<Finding> {
    let mut findings = vec![
        finding(
            Level::Note,
            "versions",
            format!("bell {}, Linux {}", env!("CARGO_PKG_VERSION"), seen.kernel),
        ),
        folder(seen),
        secrets(seen),
        cgroups(loaded, seen),
        landlock(seen),
        isolation(seen),
    ];
    findings.extend(room(seen));
    findings.extend(clock(loaded, seen));
    findings.extend(limits(loaded, seen));
    for agent in loaded.agents.values() {
        findings.extend(needs(agent, seen));
    }
    findings.extend(problems(seen));
    findings
}

pub(super) fn finding(level: Level, about: &'static str, what: impl Into<String>) -> Finding {
    Finding { level, about, rule: None, what: what.into(), because: None, next: None }
}

pub(super) fn with_next(finding: Finding, next: impl Into<String>) -> Finding {
    Finding { next: Some(next.into()), ..finding }
}

fn folder(seen: &Machine) -> Finding {
    match seen.bell {
        None => finding(Level::Ok, "folder", ".bell is not there yet: bell up makes it, for its owner only"),
        Some((_, false)) => with_next(
            finding(Level::Unsafe, "folder", ".bell belongs to another user, who can change what runs"),
            "Run bell as its owner, or remove .bell and let bell up make it.",
        ),
        Some((mode, true)) if mode & 0o022 != 0 => with_next(
            finding(Level::Unsafe, "folder", format!("others can write into .bell (mode {mode:03o})")),
            "chmod 700 .bell",
        ),
        Some((mode, true)) if mode & 0o077 != 0 => with_next(
            finding(Level::Warning, "folder", format!("others can look into .bell (mode {mode:03o})")),
            "chmod 700 .bell",
        ),
        Some(_) => finding(Level::Ok, "folder", ".bell is its owner's only"),
    }
}

fn secrets(seen: &Machine) -> Finding {
    if seen.open_secrets.is_empty() {
        return finding(Level::Ok, "secrets", "nobody but their owner can read the project's secrets");
    }
    let names: Vec<String> =
        seen.open_secrets.iter().map(|(name, mode)| format!("{name} (mode {mode:03o})")).collect();
    let what = format!("others than their owner have access to {}", names.join(", "));
    with_next(finding(Level::Unsafe, "secrets", what), "chmod 700 .bell/secrets && chmod 600 .bell/secrets/*")
}

fn cgroups(loaded: &Loaded, seen: &Machine) -> Finding {
    // An engine holds the limits of its containers by itself.
    let own = loaded.agents.values().filter(|agent| agent.settings.container.is_none());
    let wants = own
        .map(|agent| &agent.settings.limits)
        .any(|limits| limits.memory.is_some() || limits.processes.is_some());
    let without =
        "runs have no control group; their supervisors watch limits and end processes by themselves";
    let level = if wants { Level::Warning } else { Level::Note };
    let next = "Start bell up as a service with Delegate=yes, or in a container with a writable cgroup.";
    match &seen.ground {
        Ground::Missing => {
            let what = format!("there is no unified hierarchy (cgroup v2) here: {without}");
            with_next(finding(level, "cgroups", what), next)
        }
        Ground::Closed(group) => {
            let what = format!("{} is not delegated to this user: {without}", group.display());
            with_next(finding(level, "cgroups", what), next)
        }
        Ground::Open { group, controllers } => {
            let missing: Vec<&str> = ["memory", "pids"]
                .into_iter()
                .filter(|name| !controllers.iter().any(|controller| controller == name))
                .collect();
            let what = format!("runs get a control group of their own in {}", group.display());
            if missing.is_empty() {
                return finding(Level::Ok, "cgroups", what);
            }
            let what =
                format!("{what}; without {} there, supervisors watch those limits", missing.join(" and "));
            finding(if wants { Level::Note } else { Level::Ok }, "cgroups", what)
        }
    }
}

fn landlock(seen: &Machine) -> Finding {
    if seen.landlock {
        finding(Level::Ok, "landlock", "the kernel can limit what agents touch (`paths`)")
    } else {
        finding(Level::Note, "landlock", "this kernel can't limit what agents touch (`paths`)")
    }
}

fn isolation(seen: &Machine) -> Finding {
    let Some(means) = seen.isolation else {
        return with_next(
            finding(
                Level::Warning,
                "isolation",
                "this machine can't isolate runs: only those of `isolation = \"none\"` start",
            ),
            isolation::HINT,
        );
    };
    let what = format!("runs are isolated by {means}");
    match means.lacks() {
        None => finding(Level::Ok, "isolation", what),
        Some(lacks) => {
            let finding = finding(Level::Warning, "isolation", format!("{what}: {lacks}"));
            with_next(
                finding,
                "sysctl user.max_user_namespaces=15000, or run the daemon as root with `user`.",
            )
        }
    }
}

fn room(seen: &Machine) -> Option<Finding> {
    let free = seen.free_bytes?;
    let what = format!("{} MiB are free where the project lies", free >> 20);
    let next = "Free some space; old runs are in .bell/runs and go after historyRetentionDays.";
    Some(match free {
        free if free < FULL_BYTES => {
            with_next(finding(Level::Broken, "disk", format!("{what}: nothing more can be accepted")), next)
        }
        free if free < SCARCE_BYTES => with_next(finding(Level::Warning, "disk", what), next),
        _ => finding(Level::Ok, "disk", what),
    })
}

fn clock(loaded: &Loaded, seen: &Machine) -> Option<Finding> {
    let ahead = seen.ahead_ms?;
    if ahead.unsigned_abs() < CLOCK_MS || loaded.agents.values().all(|agent| agent.schedule().is_none()) {
        return None;
    }
    let side = if ahead > 0 { "behind" } else { "ahead of" };
    let s = ahead.unsigned_abs() / 1_000;
    let what = format!("this machine's clock is {s} s {side} the store's: schedules fire by this machine's");
    Some(with_next(
        finding(Level::Warning, "schedules", what),
        "Let a time service set the clock: timedatectl set-ntp true",
    ))
}

fn limits(loaded: &Loaded, seen: &Machine) -> Vec<Finding> {
    let mut findings = Vec::new();
    let agents = u64::try_from(loaded.agents.len()).unwrap_or(u64::MAX);
    let watches = (agents + 1).saturating_mul(WATCHES_PER_AGENT);
    if let Some(most) = seen.watches.filter(|most| *most < watches) {
        let what = format!(
            "{agents} agents need {watches} watches, and {most} is the most: changes are noticed late"
        );
        let next = format!("sysctl fs.inotify.max_user_watches={}", watches * 2);
        findings.push(with_next(finding(Level::Warning, "watches", what), next));
    }
    let scales = loaded.agents.values().map(|agent| u64::from(agent.settings.scale)).sum::<u64>();
    let runs = loaded.settings.scale.map_or(scales, |cap| scales.min(u64::from(cap)));
    let files = FILES_OF_DAEMON + runs.saturating_mul(FILES_PER_RUN);
    if let Some(most) = seen.open_files.filter(|most| *most < files) {
        let what = format!("{runs} runs at once need about {files} open files, and {most} is the most");
        let next = format!("ulimit -n {files}, or LimitNOFILE={files} in its service");
        findings.push(with_next(finding(Level::Warning, "open files", what), next));
    }
    findings
}

/// What one agent needs of this machine and does not find.
fn needs(agent: &Agent, seen: &Machine) -> Vec<Finding> {
    let (name, settings) = (&agent.name, &agent.settings);
    let mut findings = Vec::new();
    let mut broken = |about: &'static str, what: String, next: &str| {
        findings.push(with_next(finding(Level::Broken, about, what), next));
    };
    if let Program::Preset(preset) = &agent.program
        && settings.container.is_none()
        && let Some(program) = seen.presets.get(preset).ok().and_then(|preset| preset.argv.first())
        && !program.contains('/')
        && !seen.has_program(program)
    {
        broken(
            "programs",
            format!("{name} needs {program:?}, which is not in PATH"),
            "Install it, or add its folder to PATH.",
        );
    }
    if let Some(container) = &settings.container {
        let engine = match container.runtime {
            Runtime::Docker => "docker",
            Runtime::Podman => "podman",
        };
        if !seen.has_program(engine) {
            broken(
                "containers",
                format!("{name} needs {engine}, which is not in PATH"),
                "Install it, or take `container` out.",
            );
        } else if engine == "podman" && !seen.is_root && !seen.user_namespaces {
            let what =
                format!("{name} runs in podman without root, and this kernel allows no user namespaces");
            broken("containers", what, "sysctl user.max_user_namespaces=15000");
        }
    }
    if settings.worktree.is_some() && !seen.has_program("git") {
        broken("git", format!("{name} wants a worktree for each run, and there is no git"), "Install git.");
    }
    if settings.paths.is_some() && !seen.landlock {
        let what = format!("{name} limits its paths, and this kernel has no landlock: it can't be started");
        broken(
            "landlock",
            what,
            "Boot a kernel with landlock (5.13 or newer, lsm=landlock,…), or take `paths` out.",
        );
    }
    findings
}

fn problems(seen: &Machine) -> Vec<Finding> {
    let of = |problem: &bell_project::problem::Problem| {
        let level = if problem.is_error() { Level::Broken } else { Level::Warning };
        Finding { next: problem.hint.clone(), ..finding(level, "project", problem.to_string()) }
    };
    seen.problems.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use bell_project::folder::Folder;
    use bell_runner::isolation::Means;
    use bell_runner::presets::Presets;

    use super::*;

    fn machine() -> Machine {
        Machine {
            kernel: "6.1".to_owned(),
            bell: Some((0o700, true)),
            open_secrets: Vec::new(),
            free_bytes: Some(SCARCE_BYTES),
            ahead_ms: Some(0),
            ground: Ground::Open { group: "/g".into(), controllers: vec!["memory".into(), "pids".into()] },
            landlock: true,
            isolation: Some(Means::UserMounts),
            user_namespaces: true,
            is_root: false,
            watches: Some(1_000),
            open_files: Some(1_024),
            path: Vec::new(),
            problems: Vec::new(),
            presets: Presets::built_in().unwrap(),
        }
    }

    fn project(settings: &str) -> Loaded {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("agents/a");
        fs::create_dir_all(&agent).unwrap();
        fs::write(agent.join("SKILL.md"), "---\nname: a\ndescription: x\n---\nDo it.\n").unwrap();
        fs::write(agent.join("config.toml"), settings).unwrap();
        fs::write(agent.join("run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(agent.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        Loaded::load(&Folder::open(folder.path()).unwrap())
    }

    fn worst(settings: &str, seen: &Machine) -> Level {
        let loaded = project(settings);
        assert!(!loaded.has_errors(), "{:?}", loaded.problems);
        judge(&loaded, seen).iter().map(|finding| finding.level).max().unwrap()
    }

    #[test]
    fn a_machine_with_everything_is_sound_and_every_other_finding_says_what_to_do() {
        assert_eq!(worst("", &machine()), Level::Note);
        let poor = Machine {
            bell: Some((0o777, true)),
            open_secrets: vec![("KEY".to_owned(), 0o644)],
            free_bytes: Some(1),
            ground: Ground::Missing,
            landlock: false,
            isolation: None,
            watches: Some(1),
            open_files: Some(1),
            ..machine()
        };
        let findings = judge(&project("[paths]\nread = [\".\"]"), &poor);
        assert!(findings.len() > 6, "{findings:?}");
        for finding in findings.iter().filter(|finding| finding.level > Level::Note) {
            assert!(finding.next.is_some(), "{finding:?}");
        }
    }

    #[test]
    fn a_machine_that_isolates_runs_in_part_or_not_at_all_is_warned_of() {
        for isolation in [None, Some(Means::Landlock)] {
            assert_eq!(worst("", &Machine { isolation, ..machine() }), Level::Warning);
        }
    }

    #[test]
    fn what_others_can_reach_is_unsafe() {
        let open = Machine { open_secrets: vec![("KEY".to_owned(), 0o644)], ..machine() };
        assert_eq!(worst("", &open), Level::Unsafe);
        assert_eq!(worst("", &Machine { bell: Some((0o770, true)), ..machine() }), Level::Unsafe);
        assert_eq!(worst("", &Machine { bell: Some((0o755, true)), ..machine() }), Level::Warning);
        assert_eq!(worst("", &Machine { bell: Some((0o700, false)), ..machine() }), Level::Unsafe);
    }

    #[test]
    fn what_an_agent_needs_and_does_not_find_is_broken_and_for_others_it_does_not_matter() {
        let poor = Machine { landlock: false, user_namespaces: false, ..machine() };
        assert_eq!(worst("", &poor), Level::Note);
        for settings in [
            "run = \"claude\"",
            "[worktree]\nrepo = \".\"",
            "[paths]\nread = [\".\"]",
            "[container]\nimage = \"alpine\"",
        ] {
            assert_eq!(worst(settings, &poor), Level::Broken, "{settings}");
        }
    }

    #[test]
    fn a_clock_that_is_off_matters_to_schedules_only() {
        let off = Machine { ahead_ms: Some(-60_000), ..machine() };
        assert_eq!(worst("", &off), Level::Note);
        assert_eq!(worst("schedule = \"0 * * * *\"", &off), Level::Warning);
    }
}
