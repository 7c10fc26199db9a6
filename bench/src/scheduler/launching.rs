//! From a trigger that was accepted to an agent that runs, beside starting the same command by hand.
//!
//! The agent writes a line into a pipe as its first act. Both ways end when that line is read, so what both have in
//! common is the fork, the program's own start and the pipe.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bell_coord::Coord;
use bell_core::work::agent::AgentName;
use bell_core::work::job::State;
use bell_store::clock::boottime;
use rustix::fs::{CWD, Mode, OFlags};
use serde::Serialize;

use super::fleet::{Project, ROOM, Up, agent, command, offer};
use crate::bench::Bench;
use crate::figures::{Spread, median, ns};
use crate::table::{Table, number};

const TIMES: usize = 200;
/// Triggers that come together.
const BURST: usize = 16;
const SHELL: &str = "/bin/sh";

/// How long it takes until an agent runs.
#[derive(Serialize)]
pub(crate) struct Launching {
    /// Starting the command alone.
    pub(crate) fork: Spread,
    /// From offering a trigger to its acceptance, durably.
    pub(crate) accept: Spread,
    /// From acceptance to the agent's first act.
    pub(crate) run: Spread,
    /// From the acceptance of the last of several to the first act of the last of their agents, in ms for each: the
    /// median of the bursts.
    pub(crate) burst_ms: f64,
}

impl Launching {
    /// How much later half of the agents run than if they were started by hand.
    pub(crate) fn beyond_fork_ms(&self) -> f64 {
        (self.run.p50_us - self.fork.p50_us) / 1_000.0
    }
}

pub(super) fn measure(bench: &Bench, program: &Path) -> Result<Launching> {
    bench.tell("scheduler: from a trigger to a running agent");
    let pipe = Pipe::make(bench)?;
    let script = format!("echo >{}", pipe.path);
    let project = Project::make(bench, 10, &[SHELL, "-c", &script])?;
    let up = Up::start(program, &project)?;
    let scene = Scene { coord: project.coord()?, agent: agent(0)?, pipe, script };
    let launching = scene.measure(bench)?;
    up.stop()?;
    Ok(launching)
}

struct Scene {
    coord: Coord,
    agent: AgentName,
    pipe: Pipe,
    script: String,
}

impl Scene {
    fn measure(mut self, bench: &Bench) -> Result<Launching> {
        let (mut fork, mut accept, mut run) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.times(TIMES).max(5) {
            // In turns, so that both see the same machine.
            fork.push(ns(self.by_hand()?));
            let (accepted, running) = self.by_trigger(bench)?;
            accept.push(ns(accepted));
            run.push(ns(running));
        }
        let bursts = (0..bench.times(TIMES / 10).max(2)).map(|_| self.burst(bench));
        let bursts = bursts.collect::<Result<Vec<f64>>>()?;
        let spread = |samples| Spread::of(samples).context("nothing was measured");
        Ok(Launching {
            fork: spread(fork)?,
            accept: spread(accept)?,
            run: spread(run)?,
            burst_ms: median(&bursts).context("nothing was measured")?,
        })
    }

    fn by_hand(&mut self) -> Result<Duration> {
        let begun = boottime();
        let mut shell = command(Path::new(SHELL));
        shell.args(["-c", &self.script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.spawn()?;
        self.pipe.lines(1)?;
        let took = boottime() - begun;
        ensure!(child.wait()?.success(), "the command failed");
        Ok(took)
    }

    /// How long acceptance took, and the start after it.
    fn by_trigger(&mut self, bench: &Bench) -> Result<(Duration, Duration)> {
        let offer = offer(&self.agent);
        let begun = boottime();
        bench.runtime.block_on(self.coord.accept(std::slice::from_ref(&offer), ROOM))?;
        let accepted = boottime();
        self.pipe.lines(1)?;
        let running = boottime();
        bench.runtime.block_on(self.until_over(&[offer.id]))?;
        Ok((accepted - begun, running - accepted))
    }

    fn burst(&mut self, bench: &Bench) -> Result<f64> {
        let offers: Vec<_> = (0..BURST).map(|_| offer(&self.agent)).collect();
        bench.runtime.block_on(self.coord.accept(&offers, ROOM))?;
        let accepted = boottime();
        self.pipe.lines(BURST)?;
        let running = boottime();
        let jobs: Vec<_> = offers.into_iter().map(|offer| offer.id).collect();
        bench.runtime.block_on(self.until_over(&jobs))?;
        Ok((running - accepted).as_secs_f64() * 1_000.0 / BURST as f64)
    }

    async fn until_over(&self, jobs: &[bell_core::work::job::JobId]) -> Result<()> {
        for id in jobs {
            loop {
                let (job, version) = self.coord.job(id).await?.context("a job was lost")?;
                if matches!(job.state, State::Over { .. }) {
                    break;
                }
                self.coord.job_changed(id, version).await?;
            }
        }
        // Its supervisor has something to tidy up after that.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

/// Where agents say that they run.
struct Pipe {
    path: String,
    file: File,
}

impl Pipe {
    fn make(bench: &Bench) -> Result<Self> {
        let path = bench.new_place();
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Open for writing too, so that it never ends.
        let file = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let path = path.to_str().context("the folder's name is not UTF-8")?.to_owned();
        Ok(Self { path, file: file.into() })
    }

    fn lines(&mut self, count: usize) -> Result<()> {
        let mut lines = vec![0; count];
        Ok(self.file.read_exact(&mut lines)?)
    }
}

pub(super) fn table(launching: &Launching) -> Table {
    let mut table =
        Table::new("From a trigger to a running agent", &["what", "times", "p50 ms", "p99 ms", "max ms"]);
    let rows = [
        ("the command started by hand", &launching.fork),
        ("a trigger offered → accepted, on disk", &launching.accept),
        ("accepted → the agent's first act", &launching.run),
    ];
    for (what, spread) in rows {
        let ms = [spread.p50_us, spread.p99_us, spread.max_us].map(|us| number(us / 1_000.0));
        table.row([what.to_owned(), spread.samples.to_string()].into_iter().chain(ms).collect());
    }
    table.note(&format!(
        "Beyond the start by hand: {} ms at the median. Of {BURST} that come together, one more runs every {} ms.",
        number(launching.beyond_fork_ms()),
        number(launching.burst_ms)
    ));
    table
}
