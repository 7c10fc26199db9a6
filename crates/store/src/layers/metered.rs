//! Counting and timing what is asked of a store, for `bell_store_seconds{op}` and its neighbours.
//!
//! Plain atomics: measuring takes no lock and never fails. What is dropped before it is answered is not
//! counted, since nobody learnt how it went. Rendering the numbers is left to whoever serves metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::{Kind, Result};
use crate::record::{Name, Snapshot, Timestamp};
use crate::txn::{Outcome, Txn, Watch};
use crate::{Info, Presence, Store};

/// Upper bounds of the buckets of a latency histogram, in seconds; a last bucket takes the rest. From a
/// map in memory to a database across an ocean that is about to time out.
pub const BUCKETS_SECONDS: [f64; 12] =
    [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is the method of the store with its name")]
pub enum Op {
    Now,
    Read,
    Scan,
    Commit,
    Changed,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Now, Self::Read, Self::Scan, Self::Commit, Self::Changed];

    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Read => "read",
            Self::Scan => "scan",
            Self::Commit => "commit",
            Self::Changed => "changed",
        }
    }
}

/// Measures what is asked of a store.
pub struct Metered {
    inner: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Metered {
    /// Measures `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, metrics: Arc::default() }
    }

    /// What has been measured, still counting.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    async fn measured<T>(&self, op: Op, operation: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let started = Instant::now();
        let answer = operation.await;
        self.metrics.of(op).add(started.elapsed(), answer.as_ref().err().map(|error| error.kind()));
        answer
    }
}

#[async_trait]
impl Store for Metered {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.measured(Op::Now, self.inner.now()).await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        let answer = self.measured(Op::Read, self.inner.read(names)).await?;
        Ok(self.metrics.handed_out(answer))
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        let answer = self.measured(Op::Scan, self.inner.scan(prefix, from, limit)).await?;
        Ok(self.metrics.handed_out(answer))
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        let outcome = self.measured(Op::Commit, self.inner.commit(txn)).await?;
        Ok(match outcome {
            Outcome::Conflict(current) => {
                self.metrics.conflicts.fetch_add(1, Ordering::Relaxed);
                Outcome::Conflict(self.metrics.handed_out(current))
            }
            committed => committed,
        })
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.measured(Op::Changed, self.inner.changed(watch)).await
    }

    fn presence(&self) -> &dyn Presence {
        self.inner.presence()
    }

    fn stirs(&self) -> u64 {
        self.inner.stirs()
    }
}

/// The numbers of one store.
#[derive(Default)]
pub struct Metrics {
    ops: [Counters; Op::ALL.len()],
    conflicts: AtomicU64,
    records: AtomicU64,
}

impl Metrics {
    /// The numbers as they are now, one entry for each of [`Op::ALL`], in that order. Those of an operation
    /// that ends meanwhile may be in one number and not yet in another.
    pub fn snapshot(&self) -> Vec<Latency> {
        Op::ALL.into_iter().map(|op| self.of(op).snapshot(op)).collect()
    }

    /// Commits that conflicted. They are answers, not errors, and show how contended the records are.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Records that came with answers: what a caller looks through grows with this, not with its requests.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    fn handed_out(&self, answer: Snapshot) -> Snapshot {
        self.records.fetch_add(answer.records.len() as u64, Ordering::Relaxed);
        answer
    }

    fn of(&self, op: Op) -> &Counters {
        &self.ops[op as usize]
    }
}

/// How one kind of operation went.
#[derive(Clone, PartialEq, Debug)]
pub struct Latency {
    /// Which operation.
    pub op: Op,
    /// How many were answered, errors included.
    pub count: u64,
    /// How long they took together.
    pub sum: Duration,
    /// How many took at most as long as the bound of the same place in [`BUCKETS_SECONDS`], those of the
    /// smaller bounds included.
    pub within: [u64; BUCKETS_SECONDS.len()],
    /// How many failed, by kind; kinds that never occurred are left out.
    pub errors: Vec<(Kind, u64)>,
}

#[derive(Default)]
struct Counters {
    nanoseconds: AtomicU64,
    buckets: [AtomicU64; BUCKETS_SECONDS.len() + 1],
    errors: [AtomicU64; KINDS.len()],
}

/// In the order of their declaration, so that a kind's discriminant is its place.
const KINDS: [Kind; 11] = [
    Kind::Unavailable,
    Kind::Unknown,
    Kind::Invalid,
    Kind::Unauthorized,
    Kind::ReadOnly,
    Kind::Full,
    Kind::Corrupt,
    Kind::TooNew,
    Kind::Unsupported,
    Kind::Rewound,
    Kind::Replaced,
];

impl Counters {
    fn add(&self, took: Duration, failed: Option<Kind>) {
        let bucket = BUCKETS_SECONDS.partition_point(|bound| *bound < took.as_secs_f64());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if let Some(kind) = failed {
            self.errors[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn snapshot(&self, op: Op) -> Latency {
        let mut count = 0;
        let mut within = [0; BUCKETS_SECONDS.len()];
        for (place, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            if let Some(within) = within.get_mut(place) {
                *within = count;
            }
        }
        let failures = KINDS.into_iter().zip(self.errors.iter().map(|errors| errors.load(Ordering::Relaxed)));
        Latency {
            op,
            count,
            sum: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
            within,
            errors: failures.filter(|(_, errors)| *errors > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::scripted::Scripted;
    use crate::memory::Memory;
    use crate::txn::Expect;

    #[test]
    fn every_kind_stands_at_its_place() {
        assert!(KINDS.into_iter().enumerate().all(|(place, kind)| kind as usize == place));
    }

    #[test]
    fn a_latency_is_in_its_bucket_and_all_larger_ones() {
        let counters = Counters::default();
        counters.add(Duration::from_millis(1), None);
        counters.add(Duration::from_millis(60), None);
        counters.add(Duration::from_secs(60), None);
        let latency = counters.snapshot(Op::Read);
        assert_eq!(latency.within, [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!((latency.count, latency.sum), (3, Duration::from_millis(60_061)));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_and_failures_are_counted_by_operation_and_kind() {
        let store = Metered::new(Arc::new(Scripted::failing(2, Kind::Full)));
        store.read(&[]).await.unwrap_err();
        store.scan("", "", 1).await.unwrap_err();
        store.read(&[]).await.unwrap();
        let [now, read, scan, ..] = &store.metrics().snapshot()[..] else {
            panic!("one entry per operation")
        };
        assert_eq!((now.count, read.count, scan.count), (0, 2, 1));
        assert_eq!(read.errors, [(Kind::Full, 1)]);
        assert_eq!(scan.errors, [(Kind::Full, 1)]);
    }

    #[tokio::test]
    async fn conflicts_are_counted_and_are_no_errors() {
        let store = Metered::new(Arc::new(Memory::new()));
        let expect = vec![("a".into(), Expect::At(7))];
        store.commit(Txn { expect, ..Txn::default() }).await.unwrap();
        let metrics = store.metrics();
        assert_eq!(metrics.conflicts(), 1);
        assert_eq!(metrics.snapshot()[Op::Commit as usize].errors, []);
    }
}
