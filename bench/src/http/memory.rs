//! What a connection that is idle, and a session that waits, take of the daemon's memory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use tokio::task::JoinSet;

use super::gate::{Door, Gate, Kept, acquire};
use super::wire::{Connection, Way};
use crate::bench::{Bench, Pace};
use crate::table::{Table, number, number_or_dash};

const WAITING: usize = 10_000;
/// Keys that they wait for: a hundred wait for each.
const WAIT_FOR_EACH: usize = 100;
/// Connections that are opened at the same time.
const AT_ONCE: usize = 64;
const WAIT_MS: u64 = 600_000;

/// What so many take.
#[derive(Serialize)]
pub(crate) struct Memory {
    pub(crate) kept: Kept,
    pub(crate) waiting: usize,
    /// Of the daemon before anybody came.
    fresh_mb: f64,
    idle_bytes: f64,
    /// Of the daemon, with everybody waiting.
    pub(crate) waiting_mb: f64,
    waiting_bytes: f64,
    /// The same when all of them have asked again, where there was time for that.
    pub(crate) later_mb: Option<f64>,
}

/// A call waits for less than this, and asks again.
const ALL_ASK_AGAIN: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &Bench, program: &Path) -> Result<Vec<Memory>> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Kept::ALL.into_iter().map(|kept| one(bench, program, kept)).collect()
}

fn one(bench: &Bench, program: &Path, kept: Kept) -> Result<Memory> {
    let count = bench.times(WAITING);
    bench.tell(&format!("http: {count} connections that are idle, {}", kept.as_str()));
    let idle = Gate::open(bench, program, kept)?;
    let fresh = resident(idle.pid())?;
    let connections = bench.runtime.block_on(all(&idle.door, count, connect))?;
    let idle_bytes = (resident(idle.pid())? - fresh) / count as f64;
    drop((connections, idle));

    bench.tell(&format!("http: {count} sessions that wait, {}", kept.as_str()));
    let gate = Gate::open(bench, program, kept)?;
    let fresh = resident(gate.pid())?;
    let _held = bench.runtime.block_on(hold(&gate.door, count.div_ceil(WAIT_FOR_EACH)))?;
    let waiting = bench.runtime.block_on(all(&gate.door, count, wait))?;
    let mut waiting: JoinSet<Result<()>> =
        bench.runtime.block_on(async { waiting.into_iter().map(go_on).collect() });
    // The last of them are in their queues when another has been asked who waits.
    bench.runtime.block_on(all_wait(&gate.door, count))?;
    let resident_then = resident(gate.pid())?;
    let later = (bench.pace == Pace::Thorough).then(|| {
        std::thread::sleep(ALL_ASK_AGAIN);
        resident(gate.pid())
    });
    let ended = bench.runtime.block_on(async { waiting.try_join_next() });
    ensure!(ended.is_none(), "somebody who is to wait was answered: {ended:?}");
    bench.runtime.block_on(waiting.shutdown());
    Ok(Memory {
        kept,
        waiting: count,
        fresh_mb: fresh / 1e6,
        idle_bytes,
        waiting_mb: resident_then / 1e6,
        waiting_bytes: (resident_then - fresh) / count as f64,
        later_mb: later.transpose()?.map(|bytes| bytes / 1e6),
    })
}

/// So many of them, a few at a time.
async fn all<T, F>(door: &Door, count: usize, one: fn(Door, usize) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE {
        let door = door.clone();
        tasks.spawn(async move {
            let mut found = Vec::new();
            for number in (first..count).step_by(AT_ONCE) {
                found.push(one(door.clone(), number).await?);
            }
            anyhow::Ok(found)
        });
    }
    let mut found = Vec::new();
    while let Some(some) = tasks.join_next().await {
        found.extend(some??);
    }
    Ok(found)
}

/// A connection on which something was asked, and then nothing.
async fn connect(door: Door, _number: usize) -> Result<Connection> {
    let mut connection = Connection::open(&door.place, Way::Tcp, "nobody").await?;
    connection.post("/v1/locks/release", "{}").await?;
    Ok(connection)
}

async fn hold(door: &Door, keys: usize) -> Result<Connection> {
    let mut holder = door.session(Way::Tcp).await?;
    for number in 0..keys {
        holder.post("/v1/locks/acquire", &acquire(&key(number), number, 0)).await?.good()?;
    }
    Ok(holder)
}

/// Somebody who waits, and what it asks for.
type Waiter = (Connection, String);

async fn wait(door: Door, number: usize) -> Result<Waiter> {
    let mut connection = door.session(Way::Tcp).await?;
    let wanted = acquire(&key(number / WAIT_FOR_EACH), 1, WAIT_MS);
    connection.send("/v1/locks/acquire", &wanted).await?;
    Ok((connection, wanted))
}

/// Asks again whenever it is told that it still waits. Returns only if it is told something else.
async fn go_on((mut connection, wanted): Waiter) -> Result<()> {
    while connection.answer().await?.json()?["outcome"] == "waiting" {
        connection.send("/v1/locks/acquire", &wanted).await?;
    }
    bail!("it was told something else")
}

/// Returns when so many wait.
async fn all_wait(door: &Door, count: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for key_number in 0..count.div_ceil(WAIT_FOR_EACH) {
        let mut looker = door.session(Way::Tcp).await?;
        let wanted = (count - key_number * WAIT_FOR_EACH).min(WAIT_FOR_EACH);
        tasks.spawn(async move {
            loop {
                let busy =
                    looker.post("/v1/locks/acquire", &acquire(&key(key_number), 2, 0)).await?.json()?;
                if busy["waiting"].as_u64().context("nobody holds what all wait for")? >= wanted as u64 {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn key(number: usize) -> String {
    format!("bench://waited-for/{number}")
}

/// The resident set of a process, in bytes.
fn resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kilobytes.context("could not read how large the daemon is")? * 1_024.0)
}

pub(crate) fn table(all: &[Memory]) -> Table {
    let columns = &[
        "locks in",
        "daemon alone MB",
        "bytes per idle connection",
        "sessions that wait",
        "daemon then MB",
        "bytes each",
        "a minute later MB",
    ];
    let mut table = Table::new("Memory of connections and waiting sessions", columns);
    for one in all {
        table.row(vec![
            one.kept.as_str().to_owned(),
            number(one.fresh_mb),
            number(one.idle_bytes),
            one.waiting.to_string(),
            number(one.waiting_mb),
            number(one.waiting_bytes),
            number_or_dash(one.later_mb),
        ]);
    }
    table.note("Each on a connection of its own (HTTP/1.1), asking again whenever a call is over. What takes memory in the kernel is not counted.");
    table
}
