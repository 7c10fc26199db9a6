//! One way to find a project and its store: every command, from every folder of it, from above it, and from a stranger's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bell_e2e::Redis;
use serde_json::Value;
use support::{Place, Ran, Running, bare_command, finish, start};

const KEY: &str = "deploy://api-prod";

/// Nobody: the stranger.
const STRANGER: u32 = 65_534;

/// Where a project is the same one.
const INSIDE: [&str; 4] = ["fleet", "fleet/agents", "fleet/agents/worker", "fleet/src/deep"];

/// What operators ask of a project, with nothing in it yet, and whether it is refused from outside of any project.
const LOOKING: &[(&[&str], Outside)] = &[
    (&["stat"], Outside::Refused),
    (&["runs"], Outside::Refused),
    (&["history"], Outside::Refused),
    (&["events"], Outside::Refused),
    (&["jobs", "list"], Outside::Refused),
    (&["jobs", "undone"], Outside::Refused),
    (&["jobs", "replay", "--all", "--dry-run"], Outside::Refused),
    (&["jobs", "cancel", "x"], Outside::Refused),
    (&["jobs", "clear", "worker"], Outside::Refused),
    (&["keys", "list"], Outside::Refused),
    (&["keys", "revoke", "x"], Outside::Refused),
    (&["audit"], Outside::Refused),
    (&["audit", "verify"], Outside::Refused),
    (&["webhook", "ls"], Outside::Refused),
    (&["webhook", "show", "x"], Outside::Refused),
    (&["webhook", "replay", "x"], Outside::Refused),
    (&["why", "worker"], Outside::Refused),
    (&["logs"], Outside::Refused),
    (&["kill", "worker-1"], Outside::Refused),
    (&["stop"], Outside::Refused),
    (&["reload"], Outside::Refused),
    (&["why", KEY], Outside::Works),
    (&["check"], Outside::Works),
    (&["config", "show"], Outside::Works),
    (&["doctor"], Outside::Works),
    (&["store", "info"], Outside::Works),
    (&["store", "raise-epoch"], Outside::Works),
    (&["lock", "list"], Outside::Works),
    (&["lock", "show", KEY], Outside::Works),
    (&["lock", "wait", KEY], Outside::Works),
    (&["lock", "watch"], Outside::Works),
    (&["lock", "renew", KEY], Outside::Works),
    (&["lock", "release", KEY], Outside::Works),
    (&["lock", "break", KEY, "--reason", "x", "--yes"], Outside::Works),
];

/// What operators do to a project.
const ACTING: &[&[&str]] = &[
    &["pause"],
    &["resume"],
    &["scale", "worker", "2"],
    &["run", "worker"],
    &["keys", "add", "laptop"],
    &["mcp"],
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Refused,
    Works,
}

/// A place with a project in it and a stranger's beside it. No store is named.
struct Ground {
    place: Place,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { place: Place::sqlite() };
        ground.project("fleet", "");
        ground.project("stranger", "");
        fs::create_dir_all(ground.path("fleet/src/deep")).unwrap();
        fs::create_dir_all(ground.path("parent")).unwrap();
        fs::create_dir_all(ground.path("stranger/.bell")).unwrap();
        give_away(&ground.path("stranger"));
        ground
    }

    fn project(&self, name: &str, settings: &str) {
        let agent = self.path(&format!("{name}/agents/worker"));
        fs::create_dir_all(&agent).unwrap();
        fs::write(self.path(&format!("{name}/config.toml")), settings).unwrap();
        fs::write(agent.join("SKILL.md"), "---\nname: worker\ndescription: x\n---\nWork.\n").unwrap();
        fs::write(agent.join("config.toml"), "").unwrap();
        fs::write(agent.join("run"), "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(agent.join("run"), Permissions::from_mode(0o755)).unwrap();
    }

    /// Without links, as the command names it.
    fn path(&self, name: &str) -> PathBuf {
        self.place.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, from: &str, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env_remove("BELL_STORE").current_dir(self.path(from));
        command
    }

    fn run(&self, from: &str, arguments: &[&str]) -> Ran {
        finish(self.command(from, arguments))
    }

    fn json(&self, from: &str, arguments: &[&str]) -> Value {
        self.run(from, &[&["--json"], arguments].concat()).json()
    }

    fn up(&self, from: &str, arguments: &[&str]) -> Running {
        let mut daemon = start(self.command(from, &[&["--json", "up"], arguments].concat()));
        let line = daemon.line();
        assert!(line.contains("ready"), "{line}");
        daemon
    }

    /// Every file and folder.
    fn everything(&self) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        let mut folders = vec![self.path(".")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                all.insert(entry.path());
            }
        }
        all
    }

    /// Lists projects as safe in the settings of the user who runs the tests.
    fn trust(&self, entry: &str) {
        let config = self.path("home/.config/bell/config.toml");
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        fs::write(config, format!("safe_projects = [{entry:?}]\n")).unwrap();
    }
}

/// Makes it all the stranger's.
fn give_away(path: &Path) {
    chown(path, Some(STRANGER), Some(STRANGER)).expect("these tests need root");
    if path.is_dir() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| give_away(&entry.path()));
    }
}

#[test]
fn looking_creates_nothing_anywhere_and_outside_of_a_project_it_is_refused() {
    let ground = Ground::new();
    let before = ground.everything();
    for (arguments, outside) in LOOKING {
        for from in INSIDE {
            let ran = ground.run(from, arguments);
            assert!(!matches!(ran.code, 3 | 9), "{from}: {arguments:?}: {ran:?}");
            assert!(!ran.err.contains("could not find a project"), "{from}: {arguments:?}: {ran:?}");
        }
        let ran = ground.run("parent", arguments);
        let is_refused = ran.err.contains("could not find a project in ");
        assert_eq!(is_refused, *outside == Outside::Refused, "{arguments:?}: {ran:?}");
        if is_refused {
            assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
            assert!(ran.err.contains("hint: ") && ran.err.contains("bell init"), "{arguments:?}: {ran:?}");
        }
        let ran = ground.run("stranger", arguments).expect(3);
        assert!(ran.err.contains("belongs to another user (uid 65534)"), "{arguments:?}: {ran:?}");
        assert_eq!(ground.everything(), before, "{arguments:?}");
    }
}

#[test]
fn acting_outside_of_a_project_and_in_a_strangers_is_refused_and_creates_nothing() {
    let ground = Ground::new();
    let before = ground.everything();
    for arguments in ACTING {
        let ran = ground.run("parent", arguments);
        assert!(matches!(ran.code, 2 | 6), "{arguments:?}: {ran:?}");
        ground.run("stranger", arguments).expect(3);
    }
    for arguments in [&["up"][..], &["init"], &["lock", "acquire", KEY], &["lock", "run", KEY, "--", "true"]]
    {
        ground.run("stranger", arguments).expect(3);
    }
    assert_eq!(ground.everything(), before);
}

#[test]
fn every_folder_of_a_project_means_its_one_store() {
    let ground = Ground::new();
    let url = format!("sqlite:{}", ground.path("fleet/.bell/bell.db").display());
    for from in INSIDE {
        let info = ground.json(from, &["store", "info"]);
        assert_eq!((&info["store"], &info["chosen_by"]), (&url.as_str().into(), &"project".into()), "{from}");
        assert_eq!(info["project"], ground.path("fleet").to_str().unwrap());
        assert_eq!(info["exists"], false);
    }
    for (at, from) in INSIDE.into_iter().enumerate() {
        ground.run(from, &["lock", "acquire", &format!("job:{at}")]).expect(0);
        for (other, arguments) in INSIDE.into_iter().zip(ACTING) {
            ground.run(other, arguments).expect(0);
        }
        ground.run("fleet", &["keys", "add", &format!("key-{at}")]).expect(0);
    }
    for from in INSIDE {
        assert_eq!(ground.json(from, &["lock", "list"])["locks"].as_array().unwrap().len(), 4, "{from}");
        assert_eq!(ground.json(from, &["jobs", "list"])["queues"][0]["waiting"], 4, "{from}");
        assert_eq!(ground.json(from, &["keys", "list"])["keys"].as_array().unwrap().len(), 4, "{from}");
    }
    let states: Vec<_> = ground.everything().into_iter().filter(|path| path.ends_with(".bell")).collect();
    assert_eq!(states, [ground.path("fleet/.bell"), ground.path("stranger/.bell")]);
}

#[test]
fn a_pause_from_the_folder_of_the_agents_pauses_the_fleet() {
    let ground = Ground::new();
    ground.run("fleet/agents", &["pause", "--reason", "lunch"]).expect(0);
    assert_eq!(ground.json("fleet", &["stat"])["paused"], "lunch");
    let daemon = ground.up("fleet", &[]);
    ground.run("fleet/agents", &["resume"]).expect(0);
    assert_eq!(ground.json("fleet", &["stat"])["paused"], Value::Null);
    ground.run("fleet/agents", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn no_second_daemon_runs_the_same_agents() {
    let ground = Ground::new();
    let daemon = ground.up("fleet/agents", &[]);
    assert!(ground.path("fleet/.bell/daemon.json").exists());
    for (from, arguments) in [
        ("fleet", &["up"][..]),
        ("fleet/agents", &["up"]),
        ("fleet/agents/worker", &["up"]),
        ("parent", &["up", "../fleet/agents"]),
    ] {
        let ran = ground.run(from, arguments).expect(1);
        assert!(ran.err.contains("a daemon of this machine runs the project"), "{from}: {ran:?}");
    }
    ground.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn the_agents_of_a_project_do_not_become_a_project_of_their_own() {
    let ground = Ground::new();
    fs::remove_file(ground.path("fleet/config.toml")).unwrap();
    let ran = ground.run("fleet/agents", &["up"]).expect(4);
    assert!(ran.err.contains("it is a folder for the agents of one"), "{ran:?}");
    fs::write(ground.path("fleet/config.toml"), "").unwrap();
    for arguments in [&["init"][..], &["init", "worker"]] {
        let ran = ground.run("fleet/agents", arguments).expect(4);
        assert!(ran.err.contains("belongs to the project in"), "{ran:?}");
    }
    // Earlier versions created it.
    fs::create_dir(ground.path("fleet/agents/.bell")).unwrap();
    let ran = ground.run("fleet/agents", &["stat"]).expect(4);
    assert!(
        ran.err.contains("its agents belong to the project in") && ran.err.contains("remove "),
        "{ran:?}"
    );
    ground.run("fleet", &["stat"]).expect(0);
}

#[test]
fn what_is_named_is_used_and_never_replaced_by_something_near() {
    let ground = Ground::new();
    ground.project("other", "");
    let project = |from: &str, arguments: &[&str], variable: Option<&str>| {
        let mut command = ground.command(from, &[&["--json", "store", "info"], arguments].concat());
        variable.map(|folder| command.env("BELL_PROJECT", folder));
        finish(command).expect(0).json()["project"].clone()
    };
    let (fleet, other) = (ground.path("fleet"), ground.path("other"));
    assert_eq!(project("other", &["--project", "../fleet/agents"], None), fleet.to_str().unwrap());
    assert_eq!(project("fleet", &[], other.to_str()), other.to_str().unwrap());
    assert_eq!(project("parent", &["--project", "../fleet"], other.to_str()), fleet.to_str().unwrap());
    for arguments in [&["stat"][..], &["lock", "acquire", KEY], &["store", "info"], &["doctor"]] {
        let mut command = ground.command("fleet", arguments);
        let ran = finish({
            command.env("BELL_PROJECT", ground.path("parent"));
            command
        });
        assert!(ran.expect(2).err.contains("(set by BELL_PROJECT)"), "{arguments:?}");
        ground.run("fleet", &[arguments, &["--project", "../parent"]].concat()).expect(2);
        ground.run("fleet", &[arguments, &["--project", "nowhere"]].concat()).expect(4);
    }
}

#[test]
fn a_lock_that_the_fleet_holds_elsewhere_is_refused() {
    let server = Redis::start_with(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    for settings in [format!("store = \"{url}/0\""), format!("locks = \"{url}/1\"")] {
        let ground = Ground::new();
        ground.project("fleet", &settings);
        let info = ground.json("fleet", &["store", "info"]);
        assert!(info["chosen_by"] == "settings" || info["locks"].is_string(), "{info}");
        ground.run("fleet", &["lock", "acquire", KEY, "--session-file", "mine"]).expect(0);
        assert_eq!(ground.json("fleet", &["stat"])["locks"][0]["key"], KEY, "{settings}");
        for from in INSIDE {
            ground.run(from, &["lock", "acquire", KEY, "--session-file", "/dev/shm/none"]).expect(1);
        }
        assert!(!ground.path("fleet/.bell/bell.db").exists() || settings.starts_with("locks"));
        ground.run("fleet", &["lock", "release", KEY, "--session-file", "mine"]).expect(0);
    }
}

#[test]
fn settings_that_can_not_be_used_choose_no_store() {
    let ground = Ground::new();
    ground.project("fleet", "stor = \"redis://127.0.0.1:1\"\n");
    let before = ground.everything();
    for arguments in
        [&["lock", "acquire", KEY][..], &["lock", "list"], &["stat"], &["run", "worker"], &["store", "info"]]
    {
        let ran = ground.run("fleet", arguments).expect(4);
        assert!(ran.err.contains("config.toml:1:1"), "{arguments:?}: {ran:?}");
    }
    assert_eq!(ground.everything(), before);
}

#[test]
fn a_relative_path_means_the_same_store_in_every_folder_and_process() {
    for (setting, file) in [
        ("sqlite:.bell/own.db", ".bell/own.db"),
        ("sqlite:data/own.db", "data/own.db"),
        ("file:store", "store"),
    ] {
        let ground = Ground::new();
        ground.project("fleet", &format!("store = \"{setting}\"\n"));
        let daemon = ground.up("fleet/src/deep", &[]);
        let ran = ground.json("fleet/agents", &["run", "worker", "--wait"]);
        assert_eq!(ran["fate"]["end"]["end"], "completed", "{setting}: {ran}");
        ground.run("fleet/agents", &["lock", "acquire", KEY, "--session-file", "mine"]).expect(0);
        ground.run("fleet", &["lock", "acquire", KEY, "--session-file", "other"]).expect(1);
        ground.run("fleet", &["stop"]).expect(0);
        daemon.end().expect(0);
        let scheme = setting.split(':').next().unwrap();
        assert_eq!(
            ground.json("fleet/src", &["store", "info"])["store"],
            format!("{scheme}:{}", ground.path(&format!("fleet/{file}")).display())
        );
        assert!(ground.path(&format!("fleet/{file}")).exists());
        for strange in ["/.bell", "/data", "/store"] {
            assert!(!Path::new(strange).join("own.db").exists(), "{strange}");
        }
    }
}

#[test]
fn a_relative_path_in_the_environment_is_below_the_project() {
    let ground = Ground::new();
    for from in INSIDE {
        let mut command = ground.command(from, &["--json", "store", "info"]);
        command.env("BELL_STORE", "sqlite:x.db");
        let info = finish(command).expect(0).json();
        assert_eq!(info["store"], format!("sqlite:{}", ground.path("fleet/x.db").display()), "{from}");
        assert_eq!(info["chosen_by"], "environment");
    }
    let given = ground.json("fleet/agents", &["store", "info", "--store", "sqlite:x.db"]);
    assert_eq!(given["store"], format!("sqlite:{}", ground.path("fleet/agents/x.db").display()));
    assert_eq!(given["chosen_by"], "flag");
}

#[test]
fn a_named_store_that_is_missing_is_an_error_for_those_who_look() {
    let ground = Ground::new();
    let before = ground.everything();
    for arguments in [&["lock", "list"][..], &["lock", "show", KEY], &["stat"], &["runs"]] {
        for url in ["sqlite:none.db", "file:none"] {
            let ran = ground.run("fleet", &[arguments, &["--store", url]].concat()).expect(2);
            assert!(ran.err.contains("could not find a store at"), "{arguments:?}: {ran:?}");
        }
    }
    assert_eq!(ground.everything(), before);
}

#[test]
fn a_store_that_is_created_by_default_is_said_once_on_stderr() {
    let ground = Ground::new();
    let ran = ground.run("fleet/agents", &["--json", "lock", "acquire", "job:a"]).expect(0);
    assert!(
        ran.err.contains("created the store sqlite:") && ran.err.contains("for the project in"),
        "{ran:?}"
    );
    assert_eq!(ground.run("fleet", &["--json", "lock", "acquire", "job:b"]).expect(0).err, "");
    let ran = ground.run("parent", &["lock", "acquire", "job:a"]).expect(0);
    assert!(ran.err.contains("the default of this user: there is no project here"), "{ran:?}");
    assert!(ground.path("state/bell/bell.db").exists());
    assert_eq!(ground.json("parent", &["store", "info"])["chosen_by"], "user");
}

#[test]
fn a_state_folder_that_somebody_planted_above_captures_nothing() {
    let ground = Ground::new();
    for (owner, mode) in [(STRANGER, 0o755), (0, 0o777)] {
        let shared = ground.path(&format!("shared-{mode:o}"));
        fs::create_dir_all(shared.join("job")).unwrap();
        fs::create_dir(shared.join(".bell")).unwrap();
        fs::set_permissions(shared.join(".bell"), Permissions::from_mode(mode)).unwrap();
        chown(shared.join(".bell"), Some(owner), Some(owner)).unwrap();
        let before = ground.everything();
        let from = format!("shared-{mode:o}/job");
        for arguments in [&["lock", "acquire", KEY][..], &["lock", "list"], &["stat"], &["doctor"]] {
            ground.run(&from, arguments).expect(3);
        }
        assert_eq!(ground.everything(), before);
        // Whoever names a store does not ask the project.
        ground.run(&from, &["lock", "acquire", KEY, "--store", &ground.place.url]).expect(0);
        ground.run(&from, &["lock", "release", KEY, "--store", &ground.place.url]).expect(0);
    }
}

#[test]
fn a_project_that_others_can_write_is_refused_with_what_to_do() {
    let ground = Ground::new();
    for (mode, words) in [(0o1777, "chmod o-w"), (0o757, "chmod o-w")] {
        fs::set_permissions(ground.path("fleet"), Permissions::from_mode(mode)).unwrap();
        let ran = ground.run("fleet/agents", &["stat"]).expect(3);
        assert!(ran.err.contains("is writable by every user") && ran.err.contains(words), "{ran:?}");
    }
    fs::set_permissions(ground.path("fleet"), Permissions::from_mode(0o775)).unwrap();
    ground.run("fleet", &["stat"]).expect(0);
    chown(ground.path("fleet"), None, Some(STRANGER)).unwrap();
    let ran = ground.run("fleet", &["stat"]).expect(3);
    assert!(ran.err.contains("gid 65534") && ran.err.contains("chmod g-w"), "{ran:?}");
}

#[test]
fn what_its_user_lists_as_safe_is_used_and_what_the_project_says_of_itself_is_not() {
    let ground = Ground::new();
    let stranger = ground.path("stranger");
    let ran = ground.run("stranger", &["stat"]).expect(3);
    let line = format!("safe_projects = [{:?}]", stranger.to_str().unwrap());
    assert!(ran.err.contains(&line) && ran.err.contains("/etc/bell/config.toml"), "{ran:?}");
    fs::write(stranger.join("config.toml"), format!("{line}\n")).unwrap();
    ground.run("stranger", &["lock", "list"]).expect(3);
    fs::write(stranger.join("config.toml"), "").unwrap();
    for (entry, code) in [
        (ground.path("fleet").to_str().unwrap(), 3),
        (stranger.to_str().unwrap(), 0),
        (ground.path("*").to_str().unwrap(), 0),
        ("*", 0),
    ] {
        ground.trust(entry);
        ground.run("stranger", &["stat"]).expect(code);
    }
    // Settings that others can change say nothing.
    let config = ground.path("home/.config/bell/config.toml");
    fs::set_permissions(&config, Permissions::from_mode(0o666)).unwrap();
    let ran = ground.run("stranger", &["stat"]).expect(3);
    assert!(ran.err.contains("not used: ") && ran.err.contains("is writable by every user"), "{ran:?}");
    fs::write(&config, "safe_project = [\"*\"]\n").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
    assert!(ground.run("stranger", &["stat"]).expect(3).err.contains("has a mistake"));
}

#[test]
fn root_uses_the_project_of_the_user_who_called_sudo_and_of_nobody_else() {
    let ground = Ground::new();
    fs::set_permissions(ground.place.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let binary = bare_command().get_program().to_owned();
    let as_sudo = |uid: &str| {
        let mut command = ground.command("stranger", &["stat"]);
        command.env("SUDO_UID", uid);
        finish(command)
    };
    as_sudo("65534").expect(0);
    as_sudo("65533").expect(3);
    // The real program.
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "-u", "#0"]).arg(&binary).arg("stat").current_dir(ground.path("stranger"));
    sudo.env("HOME", ground.path("home"));
    assert_eq!(finish(sudo).code, 3, "root called it: the project is still a stranger's");
    // For others than root the variable means nothing.
    let program = ground.path("bell");
    fs::copy(&binary, &program).unwrap();
    #[expect(clippy::disallowed_methods, reason = "tests run the real binary")]
    let mut other = Command::new(&program);
    other
        .arg("stat")
        .current_dir(ground.path("stranger"))
        .env("HOME", "/nonexistent")
        .env("SUDO_UID", "65534");
    other.env_remove("BELL_STORE").uid(65_533).gid(65_533);
    assert_eq!(finish(other).code, 3);
}

#[test]
fn a_state_folder_that_can_not_be_used_is_an_error_and_not_a_way_to_another_store() {
    let ground = Ground::new();
    fs::create_dir_all(ground.path("outer/.bell")).unwrap();
    ground.project("outer/inner", "");
    let state = ground.path("outer/inner/.bell");
    fs::write(&state, "").unwrap();
    ground.run("outer/inner", &["lock", "acquire", KEY]).expect(3);
    fs::remove_file(&state).unwrap();
    symlink("/dev/null", &state).unwrap();
    ground.run("outer/inner", &["lock", "acquire", KEY]).expect(3);
    fs::remove_file(&state).unwrap();
    symlink("nowhere", &state).unwrap();
    ground.run("outer/inner", &["stat"]).expect(3);
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    fs::write(state.join("bell.db"), "no database, but a file of another program").unwrap();
    let ran = ground.run("outer/inner", &["lock", "acquire", KEY]);
    assert!(ran.code != 0, "{ran:?}");
    assert!(!ground.path("outer/.bell/bell.db").exists() && !ground.path("state").exists());
}

#[test]
fn a_state_folder_that_is_masked_by_a_mount_gets_no_store_of_its_own() {
    let ground = Ground::new();
    fs::create_dir(ground.path("fleet/.bell")).unwrap();
    let script = "mount -t tmpfs -o mode=700 none fleet/.bell && \"$0\" --project fleet lock acquire job:x";
    #[expect(clippy::disallowed_methods, reason = "a mount namespace of its own")]
    let mut masked = Command::new("unshare");
    masked.args(["--mount", "sh", "-c", script]).arg(bare_command().get_program());
    masked.current_dir(ground.path(".")).env("HOME", ground.path("home")).env_remove("BELL_STORE");
    let ran = finish(masked);
    assert!(ran.code == 3 && ran.err.contains("is masked here"), "{ran:?}");
}

#[test]
fn while_a_daemon_runs_on_another_store_the_default_one_is_not_created() {
    let ground = Ground::new();
    let daemon = ground.up("fleet", &["--store", &ground.place.url]);
    let ran = ground.run("fleet", &["lock", "acquire", KEY]).expect(5);
    assert!(ran.err.contains("a daemon runs the project") && ran.err.contains("--store"), "{ran:?}");
    assert!(!ground.path("fleet/.bell/bell.db").exists());
    ground.run("fleet", &["lock", "acquire", KEY, "--store", &ground.place.url]).expect(0);
    ground.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn a_run_keeps_to_its_supervisor_wherever_its_agent_works() {
    let ground = Ground::new();
    let script = "#!/bin/sh\ncd / && bell lock acquire job:from-root >/dev/null || exit 1\n\
                  mkdir -p \"$TMPDIR/deep\" && cd \"$TMPDIR/deep\" && bell lock acquire job:from-deep >/dev/null || exit 2\n\
                  cp /dev/null \"$OLDPWD/none\" 2>/dev/null; exit 0\n";
    fs::write(ground.path("fleet/agents/worker/run"), script).unwrap();
    let daemon = ground.up("fleet", &[]);
    let ran = ground.json("fleet", &["run", "worker", "--wait"]);
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{ran}");
    ground.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn whatever_creates_the_state_folder_has_git_ignore_it_and_check_warns_if_git_tracks_it() {
    for arguments in [&["lock", "acquire", KEY][..], &["run", "worker"], &["pause"], &["mcp"]] {
        let ground = Ground::new();
        ground.run("fleet/agents", arguments).expect(0);
        assert_eq!(
            fs::read_to_string(ground.path("fleet/.bell/.gitignore")).unwrap(),
            "*\n",
            "{arguments:?}"
        );
    }
    let ground = Ground::new();
    git(&ground.path("fleet"), &["init", "-q"]);
    fs::create_dir_all(ground.path("fleet/.bell/secrets")).unwrap();
    fs::write(ground.path("fleet/.bell/secrets/KEY"), "x").unwrap();
    fs::set_permissions(ground.path("fleet/.bell/secrets/KEY"), Permissions::from_mode(0o600)).unwrap();
    let ran = ground.run("fleet", &["check"]).expect(0);
    assert!(!ran.out.contains("git"), "{ran:?}");
    git(&ground.path("fleet"), &["add", "-A"]);
    let ran = ground.run("fleet/agents", &["check"]).expect(0);
    assert!(
        ran.out.contains(".bell: warning: git tracks") && ran.out.contains("git rm -r --cached"),
        "{ran:?}"
    );
    let daemon = ground.up("fleet", &[]);
    assert_eq!(fs::read_to_string(ground.path("fleet/.bell/.gitignore")).unwrap(), "*\n");
    ground.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

fn git(folder: &Path, arguments: &[&str]) {
    #[expect(clippy::disallowed_methods, reason = "the repository around a project")]
    let mut git = Command::new("git");
    assert_eq!(
        finish({
            git.args(arguments).current_dir(folder);
            git
        })
        .code,
        0
    );
}
