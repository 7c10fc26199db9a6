//! What one act asks of the store. Counted, not timed: these numbers are the same on every machine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bell_coord::{Ask, Coord, Denied, Keep, Lease, Session};
use bell_core::key::Key;
use bell_store::Store;
use bell_store::layers::{Metered, Metrics, Op};
use bell_store::memory::Memory;
use serde::Serialize;

use crate::bench::Bench;
use crate::stores::{key, session};
use crate::table::{Table, number};

/// How often each act is done: enough for a rare extra request to show.
const TIMES: usize = 200;

/// Requests of one act, on average.
#[derive(Serialize)]
pub(crate) struct Requests {
    act: &'static str,
    commits: f64,
    conflicts: f64,
    reads: f64,
    scans: f64,
    clock: f64,
}

impl Requests {
    /// Whether it is one commit and nothing else.
    pub(crate) fn is_one_commit(&self) -> bool {
        let others = self.conflicts + self.reads + self.scans + self.clock;
        self.commits == 1.0 && others == 0.0
    }

    pub(crate) fn is_of(&self, act: &str) -> bool {
        self.act == act
    }
}

/// Taking a free key.
pub(crate) const ACQUIRE: &str = "acquire, free";
/// Giving back a key that nobody waits for.
pub(crate) const RELEASE: &str = "release, nobody waits";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Requests>> {
    bench.tell("requests to the store");
    bench.runtime.block_on(async { Counter::new().await?.count_all().await })
}

struct Counter {
    /// Counted.
    coord: Coord,
    /// On the same store, not counted: for getting ready.
    quiet: Coord,
    metrics: Arc<Metrics>,
    holder: Session,
    other: Session,
    key: Key,
}

impl Counter {
    async fn new() -> Result<Self> {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let metered = Metered::new(Arc::clone(&memory));
        let metrics = metered.metrics();
        // Nobody's heartbeats may be counted.
        let (holder, other) = (session(Keep::Detached)?, session(Keep::Detached)?);
        let (coord, quiet) = (Coord::new(Arc::new(metered)), Coord::new(memory));
        let counter = Self { coord, quiet, metrics, holder, other, key: key("requests", 0)? };
        for session in [&counter.holder, &counter.other] {
            let lease = counter.take(session).await?;
            counter.coord.release(session, &lease).await?;
        }
        Ok(counter)
    }

    async fn count_all(&self) -> Result<Vec<Requests>> {
        let mut total = [Counts::default(); 7];
        for _ in 0..TIMES {
            self.count_once(&mut total).await?;
        }
        let acts = [
            ACQUIRE,
            "acquire again, held by itself",
            "renew",
            "acquire, busy, no wait",
            "acquire, busy, queued",
            "release to a waiter, and its answer",
            RELEASE,
        ];
        Ok(acts.into_iter().zip(total).map(|(act, counts)| counts.averaged(act)).collect())
    }

    async fn count_once(&self, total: &mut [Counts; 7]) -> Result<()> {
        let mut marks = vec![self.counts()];
        self.take(&self.holder).await?;
        marks.push(self.counts());
        the_clock_has_moved().await;
        let lease = self.take(&self.holder).await?;
        marks.push(self.counts());
        the_clock_has_moved().await;
        let lease = self.coord.renew(&self.holder, &lease).await?;
        marks.push(self.counts());
        let refused = self.coord.acquire(&self.other, &Ask::new(self.key.clone())).await;
        let Err(Denied::Busy(_)) = refused else { bail!("a held key was granted") };
        marks.push(self.counts());
        let waiting = self.queue().await?;
        marks.push(self.counts());
        self.coord.release(&self.holder, &lease).await?;
        let granted = waiting.await??;
        marks.push(self.counts());
        for lease in granted {
            self.coord.release(&self.other, &lease).await?;
        }
        marks.push(self.counts());
        for (total, pair) in total.iter_mut().zip(marks.windows(2)) {
            total.add(pair[1].since(pair[0]));
        }
        Ok(())
    }

    async fn take(&self, session: &Session) -> Result<Lease> {
        let mut leases = self.coord.acquire(session, &Ask::new(self.key.clone())).await?;
        leases.pop().context("a request for one key was answered with none")
    }

    /// Queues the other session. Returns when it sleeps.
    async fn queue(&self) -> Result<tokio::task::JoinHandle<Result<Vec<Lease>, Denied>>> {
        let (coord, other) = (self.coord.clone(), self.other.clone());
        let ask = Ask::new(self.key.clone()).wait(Duration::from_secs(60));
        let waiting = tokio::spawn(async move { coord.acquire(&other, &ask).await });
        while self.quiet.show(&self.key).await?.waiting.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // It looks once more before it sleeps.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(waiting)
    }

    fn counts(&self) -> Counts {
        let snapshot = self.metrics.snapshot();
        let of = |op: Op| snapshot.iter().find(|latency| latency.op == op).map_or(0, |latency| latency.count);
        Counts {
            commits: of(Op::Commit),
            conflicts: self.metrics.conflicts(),
            reads: of(Op::Read),
            scans: of(Op::Scan),
            clock: of(Op::Now),
        }
    }
}

/// Extending a lease in the millisecond in which it was granted changes nothing.
async fn the_clock_has_moved() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[derive(Clone, Copy, Default)]
struct Counts {
    commits: u64,
    conflicts: u64,
    reads: u64,
    scans: u64,
    clock: u64,
}

impl Counts {
    fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            conflicts: self.conflicts - earlier.conflicts,
            reads: self.reads - earlier.reads,
            scans: self.scans - earlier.scans,
            clock: self.clock - earlier.clock,
        }
    }

    fn add(&mut self, more: Self) {
        self.commits += more.commits;
        self.conflicts += more.conflicts;
        self.reads += more.reads;
        self.scans += more.scans;
        self.clock += more.clock;
    }

    fn averaged(self, act: &'static str) -> Requests {
        let average = |count: u64| count as f64 / TIMES as f64;
        Requests {
            act,
            commits: average(self.commits),
            conflicts: average(self.conflicts),
            reads: average(self.reads),
            scans: average(self.scans),
            clock: average(self.clock),
        }
    }
}

pub(crate) fn table(requests: &[Requests]) -> Table {
    let columns = ["act", "commits", "of them conflicts", "reads", "scans", "clock"];
    let mut table = Table::new("Requests to the store", &columns);
    for one in requests {
        let counts = [one.commits, one.conflicts, one.reads, one.scans, one.clock];
        table.row([one.act.to_owned()].into_iter().chain(counts.map(number)).collect());
    }
    table
}
