//! Runs in containers of a real engine (S17), from end to end: what a run finds in there, how it ends, and that nothing of it
//! is left.

use std::fs;
use std::path::PathBuf;

use bell_project::settings::{Cpus, Size};
use serde_json::Value;

use crate::fleet::{kill, lives};
use crate::podman::{IMAGE, Podman};
use crate::support::{Place, Running, eventually, finish, start};

/// A project whose agents run in containers of an engine of its own.
struct Fleet {
    place: Place,
    podman: Podman,
    /// The home of the daemon's user, which no container sees.
    home: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Self {
        Self { place: Place::sqlite(), podman: Podman::start(), home: tempfile::tempdir().unwrap() }
    }

    /// Adds an agent that runs in a container.
    fn agent(&self, name: &str, script: &str, settings: &str) {
        let container = format!("{settings}\n[container]\nruntime = \"podman\"\nimage = \"{IMAGE}\"\n");
        self.place.agent(name, script, &container);
    }

    fn up(&self) -> Running {
        let mut command = self.place.command(&["up"]);
        command.envs(self.podman.variables()).env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        let mut daemon = start(command);
        assert_eq!(daemon.line(), "ready");
        daemon
    }

    /// The file in the run's folder that says how the last run of an agent ended.
    fn exit_of(&self, agent: &str) -> Value {
        let path = self.run_dir(agent).join("exit.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn run_dir(&self, agent: &str) -> PathBuf {
        let run = self.place.runs_of(agent)[0]["run"].as_str().unwrap().to_owned();
        self.place.path(&format!(".bell/runs/{run}"))
    }

    /// The only container there is, as its engine describes it.
    fn container(&self) -> Value {
        let names = self.podman.containers();
        assert_eq!(names.len(), 1, "{names:?}");
        let described: Value = serde_json::from_str(&self.podman.ask(&["inspect", &names[0]])).unwrap();
        described[0].clone()
    }

    /// Starts an agent that waits, and returns when it does.
    fn start(&self, agent: &str) -> String {
        let job = self.place.ask(agent);
        eventually("the agent is at work in its container", || self.place.path("up").exists());
        job
    }

    /// A setting of an agent, as `bell config show` has it.
    fn setting(&self, agent: &str, key: &str) -> (String, String) {
        let shown = self.place.json(&["config", "show", "--agent", agent]);
        let row = shown["settings"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap();
        let text = |name: &str| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
        (text("value"), text("origin"))
    }

    fn until_idle(&self) {
        eventually("nothing runs", || self.place.is_idle());
    }

    fn check_that_nothing_is_left(&self) {
        assert_eq!(self.podman.containers(), [""; 0]);
        assert_eq!(self.exit_of("worker")["unconfirmed"], Value::Null);
    }
}

#[test]
fn a_run_in_a_container_has_what_it_needs_and_its_output_and_code_are_kept() {
    let fleet = Fleet::new();
    fleet.place.write("note", "of the project\n");
    fleet.place.agent("helper", "bell return helped", "");
    fleet.agent(
        "worker",
        "cat note $BELL_PROMPT_FILE; echo said >&2; echo x > made; pwd; echo x > $HOME/kept && echo at home\n\
         echo x > ${TMPDIR:-/tmp}/x && echo for a while\n\
         bell lock run fleet://x -- echo locked; bell call helper --wait; exit 3",
        "",
    );
    let daemon = fleet.up();
    let end = fleet.place.run_agent("worker")["fate"]["end"].clone();
    let log = fleet.place.log_of("worker");
    assert_eq!((&end["end"], &end["code"]), (&"failed".into(), &3.into()), "{end}: {log}");
    let here = fleet.place.folder.path().display().to_string();
    for line in
        ["of the project", "Do the work.", "said", &here, "at home", "for a while", "locked", "helped"]
    {
        assert!(log.contains(line), "{line} is in {log}");
    }
    assert_eq!(fs::read_to_string(fleet.place.path("made")).unwrap(), "x\n");
    fleet.check_that_nothing_is_left();
    daemon.stop();
}

/// An agent that says each time that it is told to end, and goes on.
const STUBBORN: &str = "trap 'echo told' TERM; echo x > up; while :; do sleep 0.05; done";

#[test]
fn a_kill_reaches_the_agent_in_its_container_once_and_after_the_grace_nothing_is_left() {
    let fleet = Fleet::new();
    fleet.agent("worker", STUBBORN, "grace = \"1s\"");
    let daemon = fleet.up();
    fleet.start("worker");
    let run = fleet.place.runs_of("worker")[0]["run"].as_str().unwrap().to_owned();
    fleet.place.run(&["kill", &run]).expect(0);
    fleet.until_idle();
    assert_eq!(fleet.place.ends(), ["killed"]);
    assert_eq!(fleet.place.log_of("worker"), "told\n");
    fleet.check_that_nothing_is_left();
    daemon.stop();
}

#[test]
fn a_container_that_takes_too_long_is_ended() {
    let fleet = Fleet::new();
    fleet.agent("worker", STUBBORN, "timeout = \"3s\"\ngrace = \"1s\"");
    let daemon = fleet.up();
    let end = fleet.place.run_agent("worker")["fate"]["end"].clone();
    assert_eq!(end["end"], "timeout", "{end}");
    fleet.check_that_nothing_is_left();
    daemon.stop();
}

#[test]
fn a_container_whose_supervisor_and_daemon_were_killed_is_ended_by_the_next_daemon() {
    let fleet = Fleet::new();
    fleet.agent("worker", STUBBORN, "");
    let daemon = fleet.up();
    fleet.start("worker");
    let state: Value =
        serde_json::from_str(&fs::read_to_string(fleet.run_dir("worker").join("state.json")).unwrap())
            .unwrap();
    let inside = fleet.container()["State"]["Pid"].to_string();
    daemon.kill();
    kill(&state["supervisor"]["pid"].to_string());
    assert!(lives(&inside), "a container outlives its supervisor");
    let daemon = fleet.up();
    fleet.until_idle();
    assert_eq!(fleet.place.ends(), ["lost"]);
    assert!(!lives(&inside));
    eventually("its end is written", || fleet.run_dir("worker").join("exit.json").exists());
    fleet.check_that_nothing_is_left();
    daemon.stop();
}

#[test]
fn a_container_whose_client_and_monitor_were_killed_is_ended() {
    let fleet = Fleet::new();
    fleet.agent("worker", STUBBORN, "");
    let daemon = fleet.up();
    fleet.start("worker");
    let container = fleet.container();
    kill(&container["State"]["ConmonPid"].to_string());
    let state: Value =
        serde_json::from_str(&fs::read_to_string(fleet.run_dir("worker").join("state.json")).unwrap())
            .unwrap();
    kill(&state["agent"]["pid"].to_string());
    fleet.until_idle();
    assert!(!lives(&container["State"]["Pid"].to_string()));
    fleet.check_that_nothing_is_left();
    daemon.stop();
}

#[test]
fn without_its_engine_an_agent_in_a_container_is_refused_with_what_to_do() {
    let fleet = Fleet::new();
    fleet.agent("worker", "echo never", "");
    let bin = fleet.place.path("bin");
    fs::create_dir(&bin).unwrap();
    let mut command = fleet.place.command(&["up"]);
    command.env("PATH", &bin);
    let mut daemon = start(command);
    assert_eq!(daemon.line(), "ready");
    let end = fleet.place.run_agent("worker")["fate"]["end"].clone();
    assert_eq!(end["end"], "unstartable", "{end}");
    assert_eq!(end["reason"], "run it in a container: there is no podman in PATH", "{end}");
    let mut doctor = fleet.place.command(&["doctor"]);
    doctor.env("PATH", &bin);
    assert!(finish(doctor).out.contains("worker needs podman, which is not in PATH"));
    daemon.stop();
}

#[test]
fn an_agent_without_its_image_never_ran_and_one_that_ends_with_the_engines_code_did() {
    let fleet = Fleet::new();
    fleet.place.agent("worker", "", "container = { runtime = \"podman\", image = \"localhost/none:1\" }");
    let daemon = fleet.up();
    let end = fleet.place.run_agent("worker")["fate"]["end"].clone();
    assert_eq!(end["end"], "unstartable", "{end}");
    assert!(end["reason"].as_str().unwrap().contains("podman ended with 125"), "{end}");
    assert!(fleet.place.log_of("worker").contains("localhost/none:1"));
    fleet.check_that_nothing_is_left();
    daemon.stop();
    for code in [125, 127] {
        fleet.agent("worker", &format!("exit {code}"), "");
        let daemon = fleet.up();
        let end = fleet.place.run_agent("worker")["fate"]["end"].clone();
        assert_eq!((&end["end"], &end["code"]), (&"failed".into(), &code.into()), "{end}");
        fleet.check_that_nothing_is_left();
        daemon.stop();
    }
}

#[test]
fn a_container_has_the_limits_that_are_shown_also_where_nothing_is_set() {
    let fleet = Fleet::new();
    for (set, origin) in
        [("", "default"), ("memory = \"64M\"\ncpus = 0.5\nprocesses = 30", "agents/worker/config.toml")]
    {
        fleet.agent(
            "worker",
            "echo x > up; while [ ! -e go ]; do sleep 0.05; done",
            &format!("[limits]\n{set}"),
        );
        let shown =
            ["limits.memory", "limits.cpus", "limits.processes"].map(|key| fleet.setting("worker", key));
        assert!(shown.iter().all(|(_, from)| from.starts_with(origin)), "{shown:?}");
        let [memory, cpus, processes] = shown.map(|(value, _)| value);
        let daemon = fleet.up();
        fleet.start("worker");
        let limits = fleet.container()["HostConfig"].clone();
        let memory = Size::parse(&memory).unwrap().bytes();
        assert!(memory > 0);
        assert_eq!((&limits["Memory"], &limits["MemorySwap"]), (&memory.into(), &memory.into()));
        let billionths = u64::from(Cpus::parse(&cpus).unwrap().hundredths()) * 10_000_000;
        assert_eq!(limits["NanoCpus"], billionths);
        assert_eq!(limits["PidsLimit"].to_string(), processes);
        fleet.place.write("go", "");
        fleet.until_idle();
        daemon.stop();
        for file in ["go", "up"] {
            fs::remove_file(fleet.place.path(file)).unwrap();
        }
    }
}

#[test]
fn a_run_over_its_memory_ends_with_that_limit_and_one_below_it_does_not() {
    let fleet = Fleet::new();
    for (script, kind) in [
        ("exec tail /dev/zero", "limit"),
        ("tail /dev/zero; exit 3", "limit"),
        ("head -c 8000000 /dev/zero | tail -c 8000000 > /dev/null; exit 3", "failed"),
    ] {
        fleet.agent("worker", script, "limits = { memory = \"32M\" }");
        let daemon = fleet.up();
        let end = fleet.place.run_agent("worker")["fate"]["end"].clone();
        let reason = fleet.exit_of("worker")["reason"].clone();
        assert_eq!(reason["kind"], kind, "{script}: {end} {reason}");
        if kind == "limit" {
            assert_eq!(reason["what"], "memory");
            assert!(end["reason"].as_str().unwrap().contains("more than its limit"), "{end}");
        }
        fleet.check_that_nothing_is_left();
        daemon.stop();
    }
}

#[test]
fn more_processes_than_a_container_may_have_are_not_started() {
    let fleet = Fleet::new();
    fleet.agent(
        "worker",
        "for i in $(seq 60); do sleep 30 & done 2>&1; echo never",
        "timeout = \"20s\"\nlimits = { processes = 20 }",
    );
    let daemon = fleet.up();
    fleet.place.run_agent("worker");
    let log = fleet.place.log_of("worker");
    assert!(log.contains("can't fork") && !log.contains("never"), "{log}");
    fleet.check_that_nothing_is_left();
    daemon.stop();
}
