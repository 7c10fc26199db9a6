//! A project in a place, a stranger's beside it, and commands that name no store.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, Ran, Running, bare_command, start};

pub(crate) const KEY: &str = "deploy://api-prod";

/// Nobody: the stranger.
pub(crate) const STRANGER: u32 = 65_534;

/// Another user, who owns nothing.
pub(crate) const OTHER: u32 = 65_533;

/// Where a project is the same one.
pub(crate) const INSIDE: [&str; 4] = ["fleet", "fleet/agents", "fleet/agents/worker", "fleet/src/deep"];

/// A place with a project in it and a stranger's beside it. No store is named.
pub(crate) struct Fixture {
    pub(crate) place: Place,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let fixture = Self { place: Place::sqlite() };
        fixture.project("fleet", "");
        fixture.project("stranger", "");
        fs::create_dir_all(fixture.path("fleet/src/deep")).unwrap();
        fs::create_dir_all(fixture.path("parent")).unwrap();
        fs::create_dir_all(fixture.path("stranger/.bell")).unwrap();
        give_away(&fixture.path("stranger"));
        fixture
    }

    pub(crate) fn project(&self, name: &str, settings: &str) {
        let agent = self.path(&format!("{name}/agents/worker"));
        fs::create_dir_all(&agent).unwrap();
        fs::write(self.path(&format!("{name}/config.toml")), settings).unwrap();
        fs::write(agent.join("SKILL.md"), "---\nname: worker\ndescription: x\nuser: root\n---\nWork.\n")
            .unwrap();
        fs::write(agent.join("config.toml"), "").unwrap();
        fs::write(agent.join("run"), "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(agent.join("run"), Permissions::from_mode(0o755)).unwrap();
    }

    /// Without links, as the command names it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn command(&self, from: &str, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env_remove("BELL_STORE").current_dir(self.path(from));
        command
    }

    /// The same by another user, also in a folder that is closed to that user.
    pub(crate) fn command_of_other(&self, from: &str, arguments: &[&str]) -> Command {
        let here = self.place.folder.path();
        fs::set_permissions(here, Permissions::from_mode(0o755)).unwrap();
        let (program, state) = (here.join("bell"), here.join("state-of-other"));
        if !program.exists() {
            fs::copy(bare_command().get_program(), &program).unwrap();
            fs::create_dir(&state).unwrap();
            chown(&state, Some(OTHER), Some(OTHER)).expect("these tests need root");
        }
        #[expect(clippy::disallowed_methods, reason = "it becomes another user when it is in the folder")]
        let mut command = Command::new("setpriv");
        let ids = [format!("--reuid={OTHER}"), format!("--regid={OTHER}"), "--clear-groups".to_owned()];
        command.args(ids).arg("--").arg(program).args(arguments).current_dir(self.path(from));
        command.env("HOME", "/nonexistent").env("XDG_STATE_HOME", state);
        for name in ["BELL_STORE", "BELL_PROJECT", "SUDO_UID", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command
    }

    /// Its end. One that never ends, such as a daemon that should have been refused, is a failure too.
    pub(crate) fn run(&self, from: &str, arguments: &[&str]) -> Ran {
        start(self.command(from, arguments)).end()
    }

    pub(crate) fn json(&self, from: &str, arguments: &[&str]) -> Value {
        self.run(from, &[&["--json"], arguments].concat()).json()
    }

    pub(crate) fn up(&self, from: &str, arguments: &[&str]) -> Running {
        let mut daemon = start(self.command(from, &[&["--json", "up"], arguments].concat()));
        let line = daemon.line();
        assert!(line.contains("ready"), "{line}");
        daemon
    }

    /// Every file and folder.
    pub(crate) fn everything(&self) -> BTreeSet<PathBuf> {
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
    pub(crate) fn trust(&self, entry: &str) {
        let config = self.path("home/.config/bell/config.toml");
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        fs::write(config, format!("safe_projects = [{entry:?}]\n")).unwrap();
    }
}

/// Makes it all the stranger's.
pub(crate) fn give_away(path: &Path) {
    chown(path, Some(STRANGER), Some(STRANGER)).expect("these tests need root");
    if path.is_dir() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| give_away(&entry.path()));
    }
}
