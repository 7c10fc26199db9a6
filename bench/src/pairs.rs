//! Acquire and release, as many times a second as sessions of distinct keys can.
//!
//! Every session has a key of its own, so nobody waits for a lock; what is measured is the way to the store
//! and back, twice.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bell_locks::locks::{StoreLocks, this_process};
use bell_locks::{Ask, Key, LockBackend, Locks};
use bell_store::clock::boottime;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::bench::{Bench, runtime};
use crate::figures::{Spread, cpu_time, ns, per_second};
use crate::limits;
use crate::stores::{self, Make};
use crate::table::{Table, number, number_or_dash};
use crate::worker::{self, Worker};

const SESSIONS: [usize; 3] = [1, 16, 64];
/// Sessions in each of two processes.
const SESSIONS_OF_TWO: usize = 16;

/// How many pairs there were, and how long they took.
#[derive(Serialize)]
pub(crate) struct Pairs {
    pub(crate) store: Make,
    pub(crate) processes: usize,
    /// In all processes together.
    pub(crate) sessions: usize,
    pub(crate) way: Way,
    pub(crate) per_second: f64,
    pub(crate) latency: Option<Spread>,
    pub(crate) cpu_us: f64,
    /// What the disk alone did right before and right after; `None` where no disk is used.
    pub(crate) fdatasync_per_second: Option<f64>,
}

impl Pairs {
    /// Pairs for each sync that the disk could have done.
    pub(crate) fn per_sync(&self) -> Option<f64> {
        self.fdatasync_per_second.map(|syncs| self.per_second / syncs)
    }
}

/// Through which door.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// `LockBackend::acquire` and `release`.
    Bare,
    /// `Locks::lock` and `Held::release`: with a renewal prepared in between.
    Kept,
}

/// What one process is to do.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    store: Make,
    place: PathBuf,
    sessions: usize,
    first_key: usize,
    way: Way,
    span: Duration,
}

/// What one process did.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    latencies_ns: Vec<u64>,
    span: Duration,
    cpu: Duration,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Pairs>> {
    let mut all = Vec::new();
    for store in Make::ALL {
        for sessions in SESSIONS {
            all.push(in_one_process(bench, store, sessions, Way::Bare)?);
        }
        all.push(in_one_process(bench, store, SESSIONS[2], Way::Kept)?);
    }
    for store in Make::SHARED {
        all.push(in_two_processes(bench, store)?);
    }
    Ok(all)
}

fn in_one_process(bench: &Bench, store: Make, sessions: usize, way: Way) -> Result<Pairs> {
    bench.tell(&format!("pairs: {}, {sessions} sessions", store.as_str()));
    let order = Order { store, place: bench.new_place(), sessions, first_key: 0, way, span: bench.span() };
    let (done, syncs) = beside_syncs(bench, store, || Ok(vec![order.run(&bench.runtime, || Ok(()))?]))?;
    Ok(Pairs::of(store, sessions, way, done, syncs))
}

fn in_two_processes(bench: &Bench, store: Make) -> Result<Pairs> {
    bench.tell(&format!("pairs: {}, two processes", store.as_str()));
    let (done, syncs) = beside_syncs(bench, store, || run_two(bench, store))?;
    Ok(Pairs::of(store, 2 * SESSIONS_OF_TWO, Way::Bare, done, syncs))
}

fn run_two(bench: &Bench, store: Make) -> Result<Vec<Done>> {
    let (place, way, span) = (bench.new_place(), Way::Bare, bench.span());
    let mut workers = Vec::new();
    for first_key in [0, SESSIONS_OF_TWO] {
        let order = Order { store, place: place.clone(), sessions: SESSIONS_OF_TWO, first_key, way, span };
        workers.push(Worker::start(&worker::Order::Pairs(order))?);
    }
    workers.iter_mut().try_for_each(Worker::wait_until_ready)?;
    workers.iter_mut().try_for_each(Worker::begin)?;
    workers.into_iter().map(Worker::result).collect()
}

/// Runs something with a look at the disk right before and right after: on a shared machine it is another
/// disk every minute.
fn beside_syncs<T>(bench: &Bench, store: Make, run: impl FnOnce() -> Result<T>) -> Result<(T, Option<f64>)> {
    if store == Make::Memory {
        return Ok((run()?, None));
    }
    let before = limits::fdatasync(bench, bench.span() / 3)?;
    let done = run()?;
    let after = limits::fdatasync(bench, bench.span() / 3)?;
    Ok((done, Some(f64::midpoint(before, after))))
}

impl Pairs {
    fn of(store: Make, sessions: usize, way: Way, done: Vec<Done>, syncs: Option<f64>) -> Self {
        let processes = done.len();
        let per_second = done.iter().map(|done| per_second(done.latencies_ns.len(), done.span)).sum();
        let cpu: Duration = done.iter().map(|done| done.cpu).sum();
        let latencies_ns: Vec<u64> = done.into_iter().flat_map(|done| done.latencies_ns).collect();
        let cpu_us = cpu.as_secs_f64() * 1e6 / latencies_ns.len().max(1) as f64;
        let (latency, fdatasync_per_second) = (Spread::of(latencies_ns), syncs);
        Self { store, processes, sessions, way, per_second, latency, cpu_us, fdatasync_per_second }
    }
}

impl Order {
    /// In a process of its own.
    pub(crate) fn carry_out(&self) -> Result<Done> {
        self.run(&runtime()?, worker::ready)
    }

    fn run(&self, runtime: &Runtime, gate: impl FnOnce() -> Result<()>) -> Result<Done> {
        let backend: Arc<dyn LockBackend> = Arc::new(StoreLocks::new(self.store.open(&self.place)?));
        let callers = (0..self.sessions).map(|number| self.caller(&backend, number));
        let callers = callers.collect::<Result<Vec<_>>>()?;
        // The first request of a session stores the session too.
        runtime.block_on(all(&callers, |caller| async move { caller.pair().await }))?;
        gate()?;
        let (begun, cpu) = (boottime(), cpu_time());
        let until = begun + self.span;
        let latencies =
            runtime.block_on(all(&callers, |caller| async move { caller.repeat(until).await }))?;
        let (span, cpu) = (boottime() - begun, cpu_time() - cpu);
        runtime.block_on(all(&callers, |caller| async move { Ok(caller.locks.end().await?) }))?;
        Ok(Done { latencies_ns: latencies.concat(), span, cpu })
    }

    fn caller(&self, backend: &Arc<dyn LockBackend>, number: usize) -> Result<Caller> {
        let locks = Locks::new(Arc::clone(backend), this_process())?;
        Ok(Caller { locks, key: stores::key("pairs", self.first_key + number)?, way: self.way })
    }
}

/// Runs one task for each caller, together.
async fn all<T, F>(callers: &[Caller], task: impl Fn(Caller) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let tasks: Vec<_> = callers.iter().map(|caller| tokio::spawn(task(caller.clone()))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await??);
    }
    Ok(results)
}

#[derive(Clone)]
struct Caller {
    locks: Locks,
    key: Key,
    way: Way,
}

impl Caller {
    async fn repeat(&self, until: Duration) -> Result<Vec<u64>> {
        let mut latencies_ns = Vec::new();
        let mut begun = boottime();
        while begun < until {
            self.pair().await?;
            let ended = boottime();
            latencies_ns.push(ns(ended - begun));
            begun = ended;
        }
        Ok(latencies_ns)
    }

    async fn pair(&self) -> Result<()> {
        let ask = Ask::new(self.key.clone());
        match self.way {
            Way::Bare => {
                let (backend, session) = (self.locks.backend(), self.locks.session());
                for lease in backend.acquire(session, &ask).await? {
                    backend.release(session, &lease).await?;
                }
            }
            Way::Kept => self.locks.lock(ask).await?.release().await?,
        }
        Ok(())
    }
}

pub(crate) fn table(pairs: &[Pairs]) -> Table {
    let columns =
        ["store", "sessions", "pairs/s", "p50 µs", "p99 µs", "fdatasync/s", "pairs per sync", "CPU µs/pair"];
    let mut table = Table::new("Acquire and release, distinct keys", &columns);
    for one in pairs {
        let way = if one.way == Way::Kept { ", kept (`Held`)" } else { "" };
        let processes = if one.processes > 1 { ", two processes" } else { "" };
        table.row(vec![
            format!("{}{way}{processes}", one.store.as_str()),
            one.sessions.to_string(),
            number(one.per_second),
            number_or_dash(one.latency.map(|latency| latency.p50_us)),
            number_or_dash(one.latency.map(|latency| latency.p99_us)),
            number_or_dash(one.fdatasync_per_second),
            number_or_dash(one.per_sync()),
            number(one.cpu_us),
        ]);
    }
    table
}
