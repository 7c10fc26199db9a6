//! Agents of another user whose daemon is not root (S13): by the machine's own sudo, with users that only a mount namespace of
//! the test knows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fleet::lives;
use crate::isolation::{give_all_to, open_to_others};
use crate::support::{Place, Ran, Running, eventually, finish, start};

const DAEMON: u32 = 61_001;
const AGENT: u32 = 61_002;

const CANARY: &str = "hunter2-canary-4713";

/// A process in a session of its own that ignores TERM, and one that does not. Both are noted.
const STUBBORN: &str = "setsid sh -c 'trap \"\" TERM; echo $$ >> $HOME/pids; while :; do sleep 0.1; done' & \
                        sleep 1000 & echo $! >> $HOME/pids; \
                        while [ $(wc -l < $HOME/pids) -lt 2 ]; do sleep 0.05; done; echo up > $HOME/up; wait";

/// Does as the first user of the machine that this fixture makes: `/etc` of it is in the folder `$0`.
const AS_DAEMON: &str = "for file in passwd group shadow sudoers; do mount --bind \"$0/$file\" /etc/$file || exit 99; done; \
                         [ -z \"$GROUP\" ] || echo $$ > $GROUP/cgroup.procs || exit 99; \
                         exec setpriv --reuid=61001 --regid=61001 --clear-groups --inh-caps=-all --bounding-set=+all \"$@\"";

/// A project of one user whose agent runs as another.
struct Fleet {
    place: Place,
    /// The users of this machine, and their homes.
    machine: tempfile::TempDir,
    bell: PathBuf,
    group: Option<Group>,
}

/// A control group that belongs to the daemon's user.
struct Group(PathBuf);

impl Group {
    fn make(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let unified = mounts.lines().find(|line| line.contains(" - cgroup2 ")).expect("a cgroup2 mount");
        let path = Path::new(unified.split(' ').nth(4).unwrap()).join(name);
        fs::create_dir(&path).unwrap();
        for file in [path.clone(), path.join("cgroup.procs")] {
            chown(file, Some(DAEMON), Some(DAEMON)).unwrap();
        }
        Self(path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let groups = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        groups.filter(|path| path.is_dir()).for_each(|path| drop(fs::remove_dir(path)));
        eventually("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

impl Fleet {
    fn of(script: &str, settings: &str) -> Self {
        let fleet = Self::without_permission(script, settings);
        let rule = format!("bell-daemon ALL=(bell-agent) NOPASSWD: {} __delegate\n", fleet.bell.display());
        let sudoers = fleet.machine.path().join("sudoers");
        fs::write(&sudoers, format!("Defaults env_reset\nDefaults use_pty\n{rule}")).unwrap();
        fleet
    }

    fn without_permission(script: &str, settings: &str) -> Self {
        let (place, machine) = (Place::sqlite(), tempfile::tempdir().unwrap());
        fs::set_permissions(machine.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = |name: &str, uid: u32| {
            let home = machine.path().join(name);
            fs::create_dir(&home).unwrap();
            chown(&home, Some(uid), Some(uid)).unwrap();
            home.display().to_string()
        };
        let users = [("bell-daemon", DAEMON), ("bell-agent", AGENT)];
        let lines = |of: &dyn Fn(&str, u32) -> String| {
            users.iter().map(|(name, uid)| of(name, *uid)).collect::<String>()
        };
        for (file, added) in [
            ("passwd", lines(&|name, uid| format!("{name}:x:{uid}:{uid}::{}:/bin/sh\n", home(name, uid)))),
            ("group", lines(&|name, uid| format!("{name}:x:{uid}:\n"))),
            ("shadow", lines(&|name, _| format!("{name}:*:19000:0:99999:7:::\n"))),
        ] {
            let of_machine = fs::read_to_string(format!("/etc/{file}")).unwrap();
            fs::write(machine.path().join(file), of_machine + &added).unwrap();
        }
        fs::write(machine.path().join("sudoers"), "").unwrap();
        place.agent("probe", script, &format!("user = \"bell-agent\"\n{settings}"));
        let skill = fs::read_to_string(place.path("agents/probe/SKILL.md")).unwrap();
        place.write("agents/probe/SKILL.md", &skill.replace(crate::fleet::user(), ""));
        place.write("config.toml", "");
        place.write(".bell/secrets/CANARY", CANARY);
        let bell = open_to_others(&place);
        give_all_to(place.folder.path(), DAEMON);
        Self { place, machine, bell, group: None }
    }

    /// A program as the daemon's user.
    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let usual = self.place.command(arguments);
        #[expect(clippy::disallowed_methods, reason = "a test runs the real binary as another user")]
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", AS_DAEMON]).arg(self.machine.path()).arg(program);
        command.args(arguments).current_dir(self.place.folder.path());
        usual.get_envs().for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        let group = self.group.as_ref().map(|group| group.0.clone()).unwrap_or_default();
        command.env("HOME", self.machine.path().join("bell-daemon")).env("GROUP", group);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(&self.bell, arguments))
    }

    fn up(&self) -> Running {
        let mut daemon = start(self.command(&self.bell, &["up"]));
        assert_eq!(daemon.line(), "ready");
        daemon
    }

    /// A file in the home of the agent.
    fn left(&self, name: &str) -> String {
        fs::read_to_string(self.machine.path().join("bell-agent").join(name)).unwrap_or_default()
    }

    /// Has the agent run until it is up, and answers the run.
    fn start_agent(&self) -> String {
        self.run(&["run", "probe"]).expect(0);
        eventually("the agent is up", || self.left("up") == "up\n");
        self.last_run()["run"].as_str().unwrap().to_owned()
    }

    fn last_run(&self) -> Value {
        self.run(&["--json", "runs"]).json()["runs"][0].clone()
    }

    fn end_of_run(&self) -> String {
        eventually("the run has ended", || !self.last_run()["end"].is_null());
        self.last_run()["end"]["end"].as_str().unwrap().to_owned()
    }

    fn state(&self, run: &str) -> Value {
        let state = fs::read(self.place.path(&format!(".bell/runs/{run}/state.json"))).unwrap();
        serde_json::from_slice(&state).unwrap()
    }

    fn supervisor(&self, run: &str) -> Pid {
        let pid = self.state(run)["supervisor"]["pid"].as_i64().unwrap();
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    /// Returns when nothing of the agent lives.
    fn until_nothing_is_left(&self) {
        let pids: Vec<String> = self.left("pids").lines().map(str::to_owned).collect();
        assert_eq!(pids.len(), 2);
        eventually("nothing is left", || !pids.iter().any(|pid| lives(pid)));
    }
}

#[test]
fn an_agent_of_another_user_works_as_with_a_daemon_of_root() {
    let script = "id -un; echo $USER; echo $HOME; grep NoNewPrivs /proc/self/status; head -1; head -1 $BELL_PROMPT_FILE; \
                  bell lock run probe://x -- echo locked; echo x > own && cat own; \
                  [ \"$CANARY\" = hunter2-canary-4713 ] && echo has its secret; \
                  cat $P/.bell/api-key $P/bell.db || echo can not read what is the daemon\\'s; \
                  cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'hunter[2]-canary'; \
                  echo complaint >&2; mkdir -m 700 closed; touch closed/file; exit 7";
    let script = |project: &Path| format!("P={}; cd ${{BELL_PROMPT_FILE%/*}}; {script}", project.display());
    for isolation in ["default", "strict", "none"] {
        let settings = format!("secrets = [\"CANARY\"]\nisolation = \"{isolation}\"\n");
        let fleet = Fleet::of("", &settings);
        fs::write(
            fleet.place.path("agents/probe/run"),
            format!("#!/bin/sh\n{}\n", script(fleet.place.folder.path())),
        )
        .unwrap();
        let daemon = fleet.up();
        let done = fleet.run(&["--json", "run", "probe", "--wait"]).json();
        let run = fleet.last_run()["run"].as_str().unwrap().to_owned();
        let log = fleet.run(&["logs", &run]).out;
        let home = match isolation {
            "strict" => fleet.place.path(".bell/homes/probe"),
            _ => fleet.machine.path().join("bell-agent"),
        };
        let mut said: Vec<&str> = log.lines().filter(|line| !line.starts_with("cat: ")).collect();
        let complaint = said.iter().position(|line| *line == "complaint").expect("what it complains about");
        said.remove(complaint);
        let home = home.display().to_string();
        let expected = [
            "bell-agent",
            "bell-agent",
            &home,
            "NoNewPrivs:\t1",
            "Do the work.",
            "Do the work.",
            "locked",
            "x",
            "has its secret",
            "can not read what is the daemon's",
            "0",
        ];
        assert_eq!(said, expected, "{isolation}: {done}\n{log}");
        assert_eq!(
            (done["fate"]["end"]["end"].as_str(), done["fate"]["end"]["code"].as_i64()),
            (Some("failed"), Some(7))
        );
        // The daemon's user can remove what the agent made, and closed to it.
        let folder = fleet.place.path(&format!(".bell/runs/{run}")).display().to_string();
        eventually("the run is over", || fleet.place.path(&format!(".bell/runs/{run}/exit.json")).exists());
        let removed = finish(fleet.command(Path::new("rm"), &["-r", &folder]));
        assert_eq!(removed.code, 0, "{removed:?}");
        daemon.stop();
    }
}

#[test]
fn a_signal_that_ends_an_agent_of_another_user_is_its_end() {
    let fleet = Fleet::of("kill -SEGV $$", "");
    let daemon = fleet.up();
    let done = fleet.run(&["--json", "run", "probe", "--wait"]).json();
    let end = &done["fate"]["end"];
    assert_eq!((end["end"].as_str(), end["signal"].as_i64()), (Some("crashed"), Some(11)), "{done}");
    daemon.stop();
}

#[test]
fn every_process_of_another_user_is_ended_with_and_without_a_control_group() {
    for with_group in [false, true] {
        let mut fleet = Fleet::of(STUBBORN, "timeout = \"6s\"\ngrace = \"500ms\"\n");
        fleet.group = with_group.then(|| Group::make(&format!("bell-test-{}", std::process::id())));
        let daemon = fleet.up();
        let run = fleet.start_agent();
        assert_eq!(fleet.state(&run)["cgroup"].is_string(), with_group);
        assert_eq!(fleet.end_of_run(), "timeout");
        fleet.until_nothing_is_left();
        daemon.stop();
    }
}

#[test]
fn what_outlives_an_agent_of_another_user_is_ended() {
    let fleet = Fleet::of(&STUBBORN.replace("; wait", ""), "");
    let daemon = fleet.up();
    fleet.start_agent();
    assert_eq!(fleet.end_of_run(), "completed");
    fleet.until_nothing_is_left();
    daemon.stop();
}

#[test]
fn an_agent_of_another_user_dies_with_its_supervisor_whether_or_not_a_daemon_is_there() {
    let fleet = Fleet::of(STUBBORN, "");
    let daemon = fleet.up();
    let run = fleet.start_agent();
    daemon.signal(Signal::KILL);
    daemon.end();
    kill_process(fleet.supervisor(&run), Signal::KILL).unwrap();
    fleet.until_nothing_is_left();
    let daemon = fleet.up();
    assert_eq!(fleet.end_of_run(), "lost");
    daemon.stop();
}

#[test]
fn an_agent_that_kills_its_delegate_is_ended_all_the_same() {
    // Isolated, it could not.
    let script = STUBBORN.replace("; wait", "; kill -KILL $PPID; wait");
    let fleet = Fleet::of(&script, "isolation = \"none\"\n");
    let daemon = fleet.up();
    fleet.start_agent();
    assert_ne!(fleet.end_of_run(), "completed");
    fleet.until_nothing_is_left();
    daemon.stop();
}

#[test]
fn an_agent_that_kills_its_delegate_and_loses_its_supervisor_is_ended_by_the_next_daemon() {
    let script =
        STUBBORN.replace("; wait", "; while [ ! -e $HOME/go ]; do sleep 0.05; done; kill -KILL $PPID; wait");
    let fleet = Fleet::of(&script, "isolation = \"none\"\n");
    let daemon = fleet.up();
    let run = fleet.start_agent();
    daemon.signal(Signal::KILL);
    daemon.end();
    let supervisor = fleet.supervisor(&run);
    kill_process(supervisor, Signal::STOP).unwrap();
    fs::write(fleet.machine.path().join("bell-agent/go"), "").unwrap();
    let pids = fleet.left("pids");
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill_process(supervisor, Signal::KILL).unwrap();
    assert!(pids.lines().all(lives), "without its delegate nothing ends them");
    let daemon = fleet.up();
    assert_eq!(fleet.end_of_run(), "lost");
    fleet.until_nothing_is_left();
    daemon.stop();
}

#[test]
fn what_sudo_does_not_allow_is_refused_with_the_line_that_allows_it() {
    let fleet = Fleet::without_permission("true", "");
    let rule = format!("bell-daemon ALL=(bell-agent) NOPASSWD: {} __delegate", fleet.bell.display());
    let checked = fleet.run(&["check"]).expect(4);
    assert!(
        checked.out.contains("run as bell-agent by sudo: sudo: ") && checked.out.contains(&rule),
        "{checked:?}"
    );
    assert!(checked.out.contains("runs as bell-agent by sudo with the home"), "{checked:?}");
    assert!(fleet.run(&["doctor"]).out.contains(&rule));
    let daemon = fleet.up();
    let done = fleet.run(&["--json", "run", "probe", "--wait"]).json();
    assert_eq!(done["fate"]["end"]["end"], "unstartable", "{done}");
    assert!(done.to_string().contains("run as bell-agent by sudo"), "{done}");
    daemon.stop();
    let allowed = Fleet::of("true", "");
    allowed.run(&["check"]).expect(0);
}
