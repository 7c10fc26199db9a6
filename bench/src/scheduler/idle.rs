//! What a daemon takes while nothing happens.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bell_store::clock::boottime;
use serde::Serialize;

use super::fleet::{Project, Up, cpu_seconds};
use crate::bench::{Bench, Pace};
use crate::table::{Table, number, whole};

const AGENTS: [usize; 2] = [1, 1_000];

/// What starting leaves behind is over by then.
const SETTLE: Duration = Duration::from_secs(3);

/// A daemon with nothing to do.
#[derive(Serialize)]
pub(crate) struct Idle {
    pub(crate) agents: usize,
    seconds: f64,
    pub(crate) cpu_percent: f64,
    pub(crate) rss_mb: f64,
    /// Its own share: what it has alone, and a part of what it shares with other processes.
    pss_mb: f64,
    threads: u64,
}

pub(super) fn measure(bench: &Bench, program: &Path) -> Result<Vec<Idle>> {
    AGENTS.iter().map(|agents| one(bench, program, *agents)).collect()
}

fn one(bench: &Bench, program: &Path, agents: usize) -> Result<Idle> {
    bench.tell(&format!("scheduler: {agents} agents that have nothing to do"));
    let project = Project::make(bench, agents, &["true"])?;
    let up = Up::start(program, &project)?;
    // Less than this says nothing: one heartbeat in five seconds is most of it.
    let span = if bench.pace == Pace::Thorough { Duration::from_secs(60) } else { Duration::from_secs(20) };
    std::thread::sleep(SETTLE);
    let (begun, cpu) = (boottime(), cpu_seconds(up.pid())?);
    std::thread::sleep(span);
    let (seconds, cpu) = ((boottime() - begun).as_secs_f64(), cpu_seconds(up.pid())? - cpu);
    let idle = Idle {
        agents,
        seconds,
        cpu_percent: 100.0 * cpu / seconds,
        rss_mb: field(up.pid(), "smaps_rollup", "Rss:")? / 1_024.0,
        pss_mb: field(up.pid(), "smaps_rollup", "Pss:")? / 1_024.0,
        threads: field(up.pid(), "status", "Threads:")? as u64,
    };
    up.stop()?;
    Ok(idle)
}

/// The first number behind a name in a file of the process.
fn field(pid: u32, file: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    value.with_context(|| format!("could not read {name} of the daemon"))
}

pub(super) fn table(idle: &[Idle]) -> Table {
    let columns = ["agents", "seconds", "CPU %", "RSS MB", "PSS MB", "threads"];
    let mut table = Table::new("`bell up` with nothing to do", &columns);
    for one in idle {
        table.row(vec![
            whole(one.agents),
            number(one.seconds),
            format!("{:.3}", one.cpu_percent),
            number(one.rss_mb),
            number(one.pss_mb),
            one.threads.to_string(),
        ]);
    }
    table
}
