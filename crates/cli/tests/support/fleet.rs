//! A project in a place: its agents, its daemon, and what its store remembers.
//!
//! What happened is read from the records themselves and not from a command, so that a test of the flow does not
//! depend on how commands show it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use bell_coord::{Coord, Denied};
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::fire::{FIRST_SEEN, Fire, Verdict};
use bell_core::work::job::{Job, JobId, State};
use bell_core::work::row::{Event, What};
use bell_project::cron::Timestamp;
use bell_store::clock::wall;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Place, Ran, Running, eventually, start};

/// Records read at once: more than most tests write.
const ROWS: usize = 1_000;

/// What an agent does that waits until the test lets it go, by making the file `go`, or is over and its folder gone. The file
/// `up` says that it waits.
pub(crate) const WAIT: &str = "echo $BELL_RUN >> up; while [ ! -e go ] && [ -e $PWD ]; do sleep 0.05; done";

/// The setting that agents need where tests are run by root, whose projects belong to root.
pub(crate) fn user() -> &'static str {
    if rustix::process::geteuid().is_root() { "user: root\n" } else { "" }
}

impl Place {
    /// Adds an agent that this script runs, with these settings in its `config.toml`. Replaces the one that is there.
    pub(crate) fn agent(&self, name: &str, script: &str, settings: &str) {
        self.agent_in(&format!("agents/{name}"), script, settings);
    }

    /// As above, in any folder of the project.
    pub(crate) fn agent_in(&self, folder: &str, script: &str, settings: &str) {
        let name = folder.rsplit('/').next().unwrap();
        self.write(
            &format!("{folder}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: A test agent.\n{}---\nDo the work.\n", user()),
        );
        self.write(&format!("{folder}/config.toml"), settings);
        let run = format!("{folder}/run");
        self.write(&run, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(&run), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Writes a file of the project, in one step, so that nobody sees half of it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, path).unwrap();
    }

    /// The lines of a file; none if it is not there.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Starts the daemon, and returns when it is ready.
    pub(crate) fn up(&self) -> Running {
        ready(start(self.command(&["--json", "up"])))
    }

    /// As above, with a wall clock that shows `moment` (RFC 3339) now.
    pub(crate) fn up_at(&self, moment: &str) -> Running {
        let moment: Timestamp = moment.parse().unwrap();
        let ahead = moment.as_second() - i64::try_from(wall().as_secs()).unwrap();
        let mut command = self.command(&["--json", "up"]);
        command.env("LD_PRELOAD", faketime()).env("FAKETIME", format!("{ahead:+}"));
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
        ready(start(command))
    }

    /// As above, with a wall clock that [`Place::set_clock`] sets while the daemon runs.
    pub(crate) fn up_with_clock(&self, moment: &str) -> Running {
        self.set_clock(moment);
        let mut command = self.command(&["--json", "up"]);
        command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", self.path("clock"));
        command
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1");
        ready(start(command))
    }

    /// Has the wall clock of that daemon show `moment` (RFC 3339) now.
    pub(crate) fn set_clock(&self, moment: &str) {
        let moment: Timestamp = moment.parse().unwrap();
        let ahead = moment.as_second() - i64::try_from(wall().as_secs()).unwrap();
        self.write("clock", &format!("{ahead:+}\n"));
    }

    /// Has an agent run until its end.
    pub(crate) fn run_agent(&self, agent: &str) -> Value {
        self.json(&["run", agent, "--wait"])
    }

    /// Has an agent run; answers the job.
    pub(crate) fn ask(&self, agent: &str) -> String {
        self.json(&["run", agent])["job"].as_str().unwrap().to_owned()
    }

    /// How the runs ended, the latest first; `running` for those that have not.
    pub(crate) fn ends(&self) -> Vec<String> {
        self.runs().iter().map(|run| run["end"]["end"].as_str().unwrap_or("running").to_owned()).collect()
    }

    /// The runs, the latest first.
    pub(crate) fn runs(&self) -> Vec<Value> {
        self.json(&["runs", "--limit", "1000"])["runs"].as_array().unwrap().clone()
    }

    /// The runs of an agent, the latest first.
    pub(crate) fn runs_of(&self, agent: &str) -> Vec<Value> {
        self.runs().into_iter().filter(|run| run["agent"] == agent).collect()
    }

    /// The log of the last run of an agent.
    pub(crate) fn log_of(&self, agent: &str) -> String {
        let run = self.runs_of(agent)[0]["run"].as_str().unwrap().to_owned();
        self.run(&["logs", &run]).expect(0).out
    }

    /// What happened, in order.
    pub(crate) fn history(&self) -> Vec<Event> {
        let mut events = self.recorded(async |coord| {
            let (mut events, mut from) = (Vec::new(), None);
            loop {
                let page = coord.history(from.as_deref(), ROWS).await?;
                events.extend(page.rows.into_iter().map(|(_, event)| event));
                match page.next {
                    Some(next) => from = Some(next),
                    None => return Ok(events),
                }
            }
        });
        events.reverse();
        events
    }

    /// The records of an agent's ticks, in order, each with its nominal time.
    pub(crate) fn fires(&self, agent: &str) -> Vec<(Wall, Fire)> {
        let name: AgentName = agent.parse().unwrap();
        self.recorded(async |coord| coord.fires(&name, None, ROWS).await).rows.into_iter().rev().collect()
    }

    /// What came of the ticks of an agent's schedule, in order: `job`, or the reason why there is none, each with
    /// its nominal time.
    pub(crate) fn ticks(&self, agent: &str) -> Vec<(String, String)> {
        let told = |fire| match fire {
            Fire { verdict: Verdict::Job { .. }, .. } => "job".to_owned(),
            Fire { verdict: Verdict::Skipped { reason }, .. } => reason,
        };
        let shown = |at: Wall| Timestamp::from_millisecond(i64::try_from(at.0).unwrap()).unwrap().to_string();
        let ticks = self.fires(agent).into_iter().map(|(at, fire)| (shown(at), told(fire)));
        ticks.filter(|(_, told)| told != FIRST_SEEN).collect()
    }

    /// Has the schedule of an agent count from this moment on (RFC 3339), as a daemon has it that sees it first. So a
    /// daemon that is slow to start does not come too late for the first tick.
    pub(crate) fn seen(&self, agent: &str, moment: &str) {
        let (name, moment): (AgentName, Timestamp) = (agent.parse().unwrap(), moment.parse().unwrap());
        let moment = Wall(u64::try_from(moment.as_millisecond()).unwrap());
        self.recorded(async |coord| coord.first_seen(&name, moment).await);
    }

    /// Waits until a daemon has seen an agent's schedule.
    pub(crate) fn until_seen(&self, agent: &str) {
        eventually(&format!("the schedule of {agent} is seen"), || !self.fires(agent).is_empty());
    }

    /// The reasons of skipped ticks that history tells of, in order.
    pub(crate) fn skips(&self) -> Vec<String> {
        let reason = |event: Event| match event.what {
            What::Skipped { reason, .. } => Some(reason),
            _ => None,
        };
        self.history().into_iter().filter_map(reason).collect()
    }

    /// How many jobs of an agent wait.
    pub(crate) fn waiting(&self, agent: &str) -> u32 {
        let name: AgentName = agent.parse().unwrap();
        self.recorded(async |coord| coord.line(&name).await).waiting
    }

    /// A job.
    pub(crate) fn job(&self, id: &JobId) -> Job {
        self.recorded(async |coord| coord.job(id).await).unwrap().0
    }

    /// What became of a job; null while it is not over.
    pub(crate) fn fate(&self, id: &JobId) -> Value {
        match self.job(id).state {
            State::Over { fate, .. } => serde_json::to_value(&fate).unwrap(),
            _ => Value::Null,
        }
    }

    /// The jobs that were not done, the latest first, each with what became of it.
    pub(crate) fn undone(&self) -> Vec<(JobId, Value)> {
        let page = self.recorded(async |coord| coord.undone(None, ROWS).await);
        let fate = |undone: &bell_core::work::row::Undone| serde_json::to_value(&undone.fate).unwrap();
        page.rows.into_iter().map(|(_, (job, undone))| (job, fate(&undone))).collect()
    }

    /// Whether nothing waits and nothing runs. It is read twice: a job whose run goes back to the queue between two records would
    /// be in neither.
    pub(crate) fn is_idle(&self) -> bool {
        let is_seen_idle = async |coord: &Coord| {
            let waits = coord.lines().await?.iter().any(|(_, line)| line.waiting > 0);
            Ok::<bool, Denied>(!waits && coord.pool().await?.slots.is_empty())
        };
        self.recorded(async |coord| Ok(is_seen_idle(coord).await? && is_seen_idle(coord).await?))
    }

    /// The names of all records that begin so.
    pub(crate) fn names(&self, prefixes: &[&str]) -> Vec<String> {
        self.recorded(async |coord| {
            let mut names = Vec::new();
            for prefix in prefixes {
                let page = coord.store().scan(prefix, "", ROWS).await?;
                names.extend(page.records.keys().map(ToString::to_string));
            }
            Ok(names)
        })
    }

    /// Makes the store, as a daemon does. Commands that only look create none.
    pub(crate) fn make_store(&self) {
        self.recorded(async |_| Ok(()));
    }

    fn recorded<T>(&self, read: impl AsyncFnOnce(&Coord) -> Result<T, Denied>) -> T {
        block_on(async {
            let coord = Coord::new(bell_locks::open::open_store(&self.url).await.unwrap());
            read(&coord).await.unwrap()
        })
    }
}

/// Waits until a daemon says that it is ready.
fn ready(mut daemon: Running) -> Running {
    let line = daemon.line();
    assert!(line.starts_with('{'), "it says so when it is ready: {line:?}");
    daemon
}

impl Running {
    /// Lets it run until `done` returns, then stops it.
    pub(crate) fn let_it(self, done: impl FnOnce()) {
        done();
        self.stop();
    }

    /// Stops it as `SIGTERM` does, and answers with its end.
    pub(crate) fn stop(self) -> Ran {
        self.signal(Signal::TERM);
        self.end().expect(0)
    }
}

/// Whether a process is there, and is no zombie.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Kills a process at once.
pub(crate) fn kill(pid: &str) {
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Waits until a line is in a file.
pub(crate) fn until_line(path: &std::path::Path, line: &str) {
    let has = || fs::read_to_string(path).unwrap_or_default().lines().any(|said| said == line);
    eventually(&format!("{line:?} is in {}", path.display()), has);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists()).expect("libfaketime: apt-get install faketime")
}
