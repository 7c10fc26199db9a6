//! What a run sees of this machine: a pure function of the project, the agent and the machine's users.
//!
//! How that is enforced is the runner's; whether it can be is tried once, when the daemon starts.

use std::path::{Path, PathBuf};

use bell_project::newcomers::DEFINITIONS;
use bell_runner::isolation::{View, Views};
use bell_runner::launch::Landlock;

/// Sockets and folders by which a program gets others started outside of its run: container engines, the service managers of
/// users, and what they all can be asked through.
const DOORS: &[&str] = &[
    "/run/user",
    "/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/var/run/docker.sock",
    "/var/run/podman",
    "/var/run/containerd",
    "/var/run/crio",
];

/// What is a door to the user root only.
const DOORS_OF_ROOT: &[&str] =
    &["/run/systemd/private", "/run/dbus/system_bus_socket", "/var/spool/cron", "/var/spool/at"];

/// What the system keeps from its users. A run of root would be able to read it.
const SYSTEM_SECRETS: &[&str] =
    &["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"];

/// Folders that hold nothing but homes.
const HOMES: &[&str] = &["/home", "/root"];

/// Numbers of users that are people, as `login.defs` has them.
const PEOPLE: std::ops::Range<u32> = 1_000..60_000;

/// A run, the project around it and the machine around that, as far as the run's view depends on it. All paths are absolute
/// and without links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// The project.
    pub(crate) project: PathBuf,
    /// The project's folder `.bell`.
    pub(crate) state: PathBuf,
    /// What is the run's own in there.
    pub(crate) own: Vec<PathBuf>,
    /// What it can read in there.
    pub(crate) commands: PathBuf,
    /// Bellwether itself.
    pub(crate) program: PathBuf,
    /// The folders of all agents.
    pub(crate) agents: Vec<PathBuf>,
    /// The files of the project's stores.
    pub(crate) stores: Vec<PathBuf>,
    /// The home of the run.
    pub(crate) home: Option<PathBuf>,
    /// The homes of users.
    pub(crate) homes: Vec<PathBuf>,
    /// What the run may reach wherever it is: a repository, the paths of its settings, the folder for temporary files.
    pub(crate) named: Vec<PathBuf>,
    /// Folders of programs.
    pub(crate) path: Vec<PathBuf>,
    /// Whether the run may change what defines the fleet.
    pub(crate) editing: Editing,
    /// Who it runs as.
    pub(crate) rank: Rank,
}

/// Whether a run may change what defines the fleet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Editing {
    /// It may not.
    #[default]
    Denied,
    /// Its settings allow it.
    Allowed,
}

/// Who a run runs as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Rank {
    /// Another user than root.
    #[default]
    Plain,
    /// Root.
    Root,
}

/// What the run sees.
pub(crate) fn views(scope: &Scope) -> Views {
    let mut views = Views::default();
    let mut hide = |paths: &[&str]| paths.iter().for_each(|path| views.set(*path, View::Hidden));
    hide(DOORS);
    hide(SYSTEM_SECRETS);
    hide(HOMES);
    if scope.rank == Rank::Root {
        hide(DOORS_OF_ROOT);
    }
    scope.homes.iter().for_each(|home| views.set(home, View::Hidden));
    for path in scope.home.iter().chain([&scope.project]).chain(&scope.named) {
        views.set(path, View::Open);
    }
    for path in scope.path.iter().chain([&scope.program]) {
        let is_hidden = views.of(path) == View::Hidden;
        let is_home = HOMES.iter().any(|home| path == Path::new(home)) || scope.homes.contains(path);
        if is_hidden && !is_home {
            views.set(path, View::ReadOnly);
        }
    }
    if scope.editing == Editing::Denied {
        let definitions = DEFINITIONS.iter().map(|name| scope.project.join(name));
        definitions.chain(scope.agents.iter().cloned()).for_each(|path| views.set(path, View::ReadOnly));
    }
    scope.stores.iter().for_each(|file| views.set(file, View::Hidden));
    views.set(&scope.state, View::Hidden);
    views.set(&scope.commands, View::ReadOnly);
    scope.own.iter().for_each(|path| views.set(path, View::Open));
    views
}

/// All that a run reaches under strict isolation: the system's programs, the project, and what is its own.
pub(crate) fn strict(scope: &Scope, read: Vec<PathBuf>, write: Vec<PathBuf>) -> Landlock {
    let mut landlock = Landlock { read, write, system: true };
    landlock.read.extend([scope.commands.clone(), scope.program.clone()]);
    landlock.write.extend(scope.own.iter().chain([&scope.project]).chain(&scope.home).cloned());
    landlock
}

/// The homes of people in `/etc/passwd`, given as text.
pub(crate) fn homes(passwd: &str) -> Vec<PathBuf> {
    let home = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let uid = fields.next()?.parse::<u32>().ok()?;
        let home = PathBuf::from(fields.nth(2)?);
        // A folder right below the root may be the system's own.
        let is_apart = home.is_absolute() && home.components().count() > 2 && !home.starts_with("/usr");
        (PEOPLE.contains(&uid) && is_apart).then_some(home)
    };
    passwd.lines().filter_map(home).collect()
}

/// The files of a store that is on this machine, if it is.
pub(crate) fn store_files(url: &str) -> Vec<PathBuf> {
    let path = |rest: &str| PathBuf::from(rest.split('?').next().unwrap_or(rest));
    if let Some(rest) = url.strip_prefix("sqlite:") {
        let file = path(rest).display().to_string();
        return ["", "-wal", "-shm", "-journal"]
            .iter()
            .map(|end| PathBuf::from(format!("{file}{end}")))
            .collect();
    }
    url.strip_prefix("file:").map(path).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            project: "/home/ann/fleet".into(),
            state: "/home/ann/fleet/.bell".into(),
            own: vec!["/home/ann/fleet/.bell/runs/r/agent".into()],
            commands: "/home/ann/fleet/.bell/bin".into(),
            program: "/usr/bin/bell".into(),
            agents: vec!["/home/ann/fleet/helper".into()],
            home: Some("/home/ann".into()),
            ..Scope::default()
        }
    }

    fn of(views: &Views, path: &str) -> View {
        views.of(Path::new(path))
    }

    #[test]
    fn a_run_works_in_its_project_and_its_home_and_sees_nothing_of_others() {
        let views = views(&scope());
        for open in ["/home/ann/fleet/src/a.rs", "/home/ann/.cache", "/tmp/x", "/usr/bin/git"] {
            assert_eq!(of(&views, open), View::Open, "{open}");
        }
        for hidden in [
            "/home/bob/notes",
            "/root/.ssh",
            "/home/ann/fleet/.bell/api-key",
            "/home/ann/fleet/.bell/runs/other/agent",
            "/run/user/1000/bus",
            "/run/docker.sock",
            "/etc/shadow",
        ] {
            assert_eq!(of(&views, hidden), View::Hidden, "{hidden}");
        }
    }

    #[test]
    fn its_own_folder_and_the_commands_are_all_it_sees_of_bellwethers_state() {
        let views = views(&scope());
        assert_eq!(of(&views, "/home/ann/fleet/.bell/runs/r/agent/bell.sock"), View::Open);
        assert_eq!(of(&views, "/home/ann/fleet/.bell/runs/r/state.json"), View::Hidden);
        assert_eq!(of(&views, "/home/ann/fleet/.bell/bin/bell"), View::ReadOnly);
    }

    #[test]
    fn what_defines_the_fleet_is_read_only_unless_the_settings_say_otherwise() {
        let files = ["config.toml", "agents/a/SKILL.md", "helper/run", "presets/own.toml"];
        let view = |views: &Views, file: &str| views.of(&Path::new("/home/ann/fleet").join(file));
        let closed = views(&scope());
        let open = views(&Scope { editing: Editing::Allowed, ..scope() });
        for file in files {
            assert_eq!((view(&closed, file), view(&open, file)), (View::ReadOnly, View::Open), "{file}");
        }
    }

    #[test]
    fn a_store_that_is_a_file_of_the_project_is_hidden() {
        let url = "sqlite:/home/ann/fleet/fleet.db?mode=rw";
        let views = views(&Scope { stores: store_files(url), ..scope() });
        assert_eq!(of(&views, "/home/ann/fleet/fleet.db"), View::Hidden);
        assert_eq!(of(&views, "/home/ann/fleet/fleet.db-wal"), View::Hidden);
        assert!(store_files("redis://db.example").is_empty());
    }

    #[test]
    fn programs_in_a_hidden_home_can_be_run_but_the_home_stays_hidden() {
        let path = vec!["/home/linuxbrew/.linuxbrew/bin".into(), "/home".into(), "/usr/bin".into()];
        let views = views(&Scope { path, ..scope() });
        assert_eq!(of(&views, "/home/linuxbrew/.linuxbrew/bin/jq"), View::ReadOnly);
        assert_eq!(of(&views, "/home/linuxbrew/.ssh"), View::Hidden);
        assert_eq!(of(&views, "/usr/bin/git"), View::Open);
    }

    #[test]
    fn doors_that_open_for_root_are_hidden_from_runs_of_root() {
        let views = views(&Scope { rank: Rank::Root, home: Some("/root".into()), ..scope() });
        assert_eq!(of(&views, "/run/systemd/private"), View::Hidden);
        assert_eq!(of(&views, "/root/.config"), View::Open);
    }

    #[test]
    fn homes_are_those_of_people() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/export/ann:/bin/sh\nsys:x:101:1::/var/lib/sys:/bin/sh\n\
                      odd:x:1001:1::/opt:/bin/sh\nbroken\n";
        assert_eq!(homes(passwd), [Path::new("/export/ann")]);
    }
}
