//! Triggers accepted in a second, each on disk before it is answered.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bell_coord::Coord;
use bell_core::work::accept::Accepted;
use bell_core::work::agent::AgentName;
use bell_store::clock::boottime;
use bell_store_sqlite::Sqlite;
use serde::Serialize;

use super::fleet::{ROOM, agent, offer};
use crate::bench::Bench;
use crate::figures::{Spread, cpu_time, ns, per_second};
use crate::limits;
use crate::table::{Table, number, number_or_dash};

/// How many clients, and for how many agents.
const CASES: [(usize, usize); 3] = [(1, 1), (64, 1), (64, 64)];

/// How many triggers were accepted.
#[derive(Serialize)]
pub(crate) struct Intake {
    pub(crate) clients: usize,
    pub(crate) agents: usize,
    pub(crate) per_second: f64,
    latency: Option<Spread>,
    cpu_us: f64,
    /// Triggers for each commit of the disk.
    per_commit: f64,
    /// What the disk alone did right before and right after.
    fdatasync_per_second: f64,
}

pub(super) fn measure(bench: &Bench) -> Result<Vec<Intake>> {
    CASES.iter().map(|(clients, agents)| one(bench, *clients, *agents)).collect()
}

fn one(bench: &Bench, clients: usize, agents: usize) -> Result<Intake> {
    bench.tell(&format!("scheduler: triggers of {clients} clients for {agents} agents"));
    let store = Arc::new(Sqlite::open(&bench.new_place())?);
    let coord = Coord::new(Arc::clone(&store) as _);
    let before = limits::fdatasync(bench, bench.span() / 3)?;
    let (begun, cpu) = (boottime(), cpu_time());
    let until = begun + bench.span();
    let latencies_ns = bench.runtime.block_on(all(&coord, clients, agents, until))?;
    let (span, cpu) = (boottime() - begun, cpu_time() - cpu);
    let after = limits::fdatasync(bench, bench.span() / 3)?;
    let count = latencies_ns.len();
    Ok(Intake {
        clients,
        agents,
        per_second: per_second(count, span),
        cpu_us: cpu.as_secs_f64() * 1e6 / count.max(1) as f64,
        per_commit: count as f64 / store.batches().max(1) as f64,
        latency: Spread::of(latencies_ns),
        fdatasync_per_second: f64::midpoint(before, after),
    })
}

async fn all(coord: &Coord, clients: usize, agents: usize, until: Duration) -> Result<Vec<u64>> {
    let tasks: Vec<_> = (0..clients)
        .map(|number| Ok(tokio::spawn(repeat(coord.clone(), agent(number % agents)?, until))))
        .collect::<Result<_>>()?;
    let mut latencies_ns = Vec::new();
    for task in tasks {
        latencies_ns.extend(task.await??);
    }
    Ok(latencies_ns)
}

async fn repeat(coord: Coord, agent: AgentName, until: Duration) -> Result<Vec<u64>> {
    let mut latencies_ns = Vec::new();
    let mut begun = boottime();
    while begun < until {
        let accepted = coord.accept(&[offer(&agent)], ROOM).await?;
        ensure!(matches!(accepted[..], [Accepted::Queued { .. }]), "a trigger was refused");
        let ended = boottime();
        latencies_ns.push(ns(ended - begun));
        begun = ended;
    }
    Ok(latencies_ns)
}

pub(super) fn table(intake: &[Intake]) -> Table {
    let columns = [
        "clients",
        "agents",
        "triggers/s",
        "p50 µs",
        "p99 µs",
        "fdatasync/s",
        "triggers per commit",
        "CPU µs/trigger",
    ];
    let mut table = Table::new("Triggers accepted, on SQLite", &columns);
    for one in intake {
        table.row(vec![
            one.clients.to_string(),
            one.agents.to_string(),
            number(one.per_second),
            number_or_dash(one.latency.map(|latency| latency.p50_us)),
            number_or_dash(one.latency.map(|latency| latency.p99_us)),
            number(one.fdatasync_per_second),
            number(one.per_commit),
            number(one.cpu_us),
        ]);
    }
    table
}
