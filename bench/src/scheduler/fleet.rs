//! Projects to measure, and the real daemon over them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bell_coord::Coord;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::accept::{Offer, Overflow, Room};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{JobSpec, Rules, Trigger};
use bell_store::clock::boottime;
use bell_store_sqlite::Sqlite;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::Bench;

/// Room for any queue that is measured.
pub(crate) const ROOM: Room = Room { size: 1_000_000, overflow: Overflow::Reject };

/// What a webhook brings, at the least.
const PAYLOAD_BYTES: usize = 300;

/// A project's folder.
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
}

impl Project {
    /// A project of so many agents that run `command`. A tenth of them have schedules, which are not due for a year.
    pub(crate) fn make(bench: &Bench, agents: usize, command: &[&str]) -> Result<Self> {
        let folder = bench.new_place();
        // Root owns what it makes here, and nothing runs as root without saying so.
        let user = if rustix::process::geteuid().is_root() { "user = \"root\"\n" } else { "" };
        for number in 0..agents {
            let (name, place) = (name(number), folder.join("agents").join(name(number)));
            fs::create_dir_all(&place)?;
            let skill =
                format!("---\nname: {name}\ndescription: Number {number} of the fleet.\n---\nDo the work.\n");
            fs::write(place.join("SKILL.md"), skill)?;
            let schedule = if number % 10 == 9 { "schedule = \"0 4 29 2 *\"\n" } else { "" };
            fs::write(place.join("config.toml"), format!("{user}run = {command:?}\nscale = 64\n{schedule}"))?;
        }
        Ok(Self { folder })
    }

    /// The project's store, as another process of the machine opens it. It blocks: not for async code.
    pub(crate) fn store(&self) -> Result<Arc<Sqlite>> {
        let place = self.folder.join(".bell");
        fs::create_dir_all(&place)?;
        Ok(Arc::new(Sqlite::open(&place.join("bell.db")).context("could not open the store")?))
    }

    pub(crate) fn coord(&self) -> Result<Coord> {
        Ok(Coord::new(self.store()?))
    }
}

fn name(number: usize) -> String {
    format!("agent-{number}")
}

/// One of a project's agents.
pub(crate) fn agent(number: usize) -> Result<AgentName> {
    Ok(AgentName::parse(&name(number))?)
}

/// A trigger for an agent.
pub(crate) fn offer(agent: &AgentName) -> Offer {
    let spec = JobSpec {
        agent: agent.clone(),
        trigger: Trigger::Manual { by: Some("bench".to_owned()) },
        rules: Rules::default(),
    };
    let payload = format!("{{\"prompt\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES)).into();
    Offer { id: new_job(), spec, payload, once: None, at: wall_now() }
}

/// A daemon that is ready. Dropped, it is killed.
pub(crate) struct Up {
    child: Child,
    /// From just before its process was started to when it said that it is ready.
    pub(crate) took: Duration,
}

impl Up {
    pub(crate) fn start(program: &Path, project: &Project) -> Result<Self> {
        let begun = boottime();
        let mut child = command(program)
            .arg("up")
            .arg(&project.folder)
            .env_remove("BELL_STORE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {}", program.display()))?;
        let out = child.stdout.take().context("could not read from the daemon")?;
        let mut up = Self { child, took: Duration::ZERO };
        let ready = BufReader::new(out).lines().any(|line| line.is_ok_and(|line| line == "ready"));
        ensure!(ready, "the daemon ended before it was ready");
        up.took = boottime() - begun;
        Ok(up)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it as an operator would.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("could not name the daemon")?, Signal::TERM)?;
        ensure!(self.child.wait()?.success(), "the daemon failed");
        Ok(())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Both fail if it has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of all threads of a process, by the scheduler's own account: clock ticks are too coarse for an idle one.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut total_ns = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let account = fs::read_to_string(thread?.path().join("schedstat"))?;
        let ns = account.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        total_ns += ns.context("could not read how much the daemon ran")?;
    }
    Ok(total_ns / 1e9)
}

/// A program, to be started.
#[expect(clippy::disallowed_methods, reason = "what is measured is a program")]
pub(crate) fn command(program: &Path) -> Command {
    Command::new(program)
}
