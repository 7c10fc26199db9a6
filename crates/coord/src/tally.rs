//! What this process has seen of its locks, counted: waits and how they ended, leases that were lost, renewals that
//! failed, writes that came too late.
//!
//! A run's locks are kept by its supervisor and a script's by its own command, so no process sees all of them. Each
//! counts what it sees here, and whoever collects the counts takes them with [`take`]: what was taken once is not taken
//! again. Making metrics of them is left to the gateway, and carrying them there to the daemon.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::denied::Denied;

/// Upper bounds of the buckets that waits are counted in, in seconds; a last bucket takes the rest. From a key that was
/// free to one that is held for the default ttl.
pub const WAIT_BUCKETS_SECONDS: [f64; 12] =
    [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0];

static COUNTS: Mutex<Counts> = Mutex::new(Counts::NONE);
static NEWS: Notify = Notify::const_new();

/// What was counted, until it was taken.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Requests that got their locks, by how long that took.
    pub acquired: Spread,
    /// Requests that waited for as long as they wanted to, in vain.
    pub timed_out: Spread,
    /// Requests whose waiting would have closed a cycle.
    pub deadlock: Spread,
    /// Requests that got no answer from the store.
    pub unavailable: Spread,
    /// Leases that were over before their holders gave them back.
    pub lost: u64,
    /// Renewals and heartbeats that failed.
    pub renew_failures: u64,
    /// Locks that operators broke.
    pub broken: u64,
    /// Writes that a guard refused, because of their fence.
    pub fence_rejected: u64,
    /// Acts that went on without their lock, because the store did not answer and the key's policy allows it.
    pub fail_open: u64,
}

impl Counts {
    const NONE: Self = Self {
        acquired: Spread::NONE,
        timed_out: Spread::NONE,
        deadlock: Spread::NONE,
        unavailable: Spread::NONE,
        lost: 0,
        renew_failures: 0,
        broken: 0,
        fence_rejected: 0,
        fail_open: 0,
    };

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
        self.acquired.add(&other.acquired);
        self.timed_out.add(&other.timed_out);
        self.deadlock.add(&other.deadlock);
        self.unavailable.add(&other.unavailable);
        self.lost += other.lost;
        self.renew_failures += other.renew_failures;
        self.broken += other.broken;
        self.fence_rejected += other.fence_rejected;
        self.fail_open += other.fail_open;
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

/// Lengths of time, counted in buckets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// All of them together.
    pub sum_ns: u64,
    /// How many were longer than the bound before and no longer than the bound of the same place in
    /// [`WAIT_BUCKETS_SECONDS`].
    pub buckets: [u64; WAIT_BUCKETS_SECONDS.len() + 1],
}

impl Spread {
    const NONE: Self = Self { sum_ns: 0, buckets: [0; WAIT_BUCKETS_SECONDS.len() + 1] };

    fn count(&mut self, length: Duration) {
        let place = WAIT_BUCKETS_SECONDS.partition_point(|bound| *bound < length.as_secs_f64());
        self.buckets[place] += 1;
        let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    fn add(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
    }
}

/// Counts how a request for locks ended. One that was answered without waiting that they are busy is no wait.
pub(crate) fn waited<T>(length: Duration, outcome: &Result<T, Denied>) {
    note(|counts| match outcome {
        Ok(_) => counts.acquired.count(length),
        Err(Denied::TimedOut(_)) => counts.timed_out.count(length),
        Err(Denied::Deadlock(_)) => counts.deadlock.count(length),
        Err(Denied::Unavailable(_)) => counts.unavailable.count(length),
        Err(_) => {}
    });
}

/// Counts a lease that was over before its holder gave it back.
pub fn lost() {
    note(|counts| counts.lost += 1);
}

/// Counts a renewal, or a heartbeat, that failed.
pub fn renew_failed() {
    note(|counts| counts.renew_failures += 1);
}

/// Counts a write that a guard refused.
pub fn fence_rejected() {
    note(|counts| counts.fence_rejected += 1);
}

/// Counts an act that went on without its lock.
pub fn failed_open() {
    note(|counts| counts.fail_open += 1);
}

pub(crate) fn broken() {
    note(|counts| counts.broken += 1);
}

/// What was counted since this was last asked.
pub fn take() -> Counts {
    std::mem::take(&mut *counts())
}

/// Puts back what was taken and could not be told.
pub fn put_back(untold: &Counts) {
    counts().add(untold);
}

/// Returns when something was counted since this was last asked. One caller of a process waits for it.
pub async fn counted() {
    NEWS.notified().await;
}

fn note(change: impl FnOnce(&mut Counts)) {
    change(&mut counts());
    NEWS.notify_one();
}

fn counts() -> MutexGuard<'static, Counts> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_in_the_first_bucket_that_is_long_enough() {
        let mut spread = Spread::default();
        spread.count(Duration::from_millis(1));
        spread.count(Duration::from_millis(2));
        spread.count(Duration::from_secs(3_600));
        assert_eq!(spread.buckets, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(spread.sum_ns, 3_600_003_000_000);
    }

    #[test]
    fn what_two_have_counted_is_added_up() {
        let mut all = Counts { lost: 1, ..Counts::default() };
        let mut other = Counts { lost: 2, broken: 1, ..Counts::default() };
        other.acquired.count(Duration::from_secs(1));
        all.add(&other);
        assert_eq!((all.lost, all.broken, all.acquired.buckets[5]), (3, 1, 1));
        assert!(Counts::default().is_empty() && !all.is_empty());
    }

    #[test]
    fn what_a_newer_process_counts_is_read_by_an_older_one() {
        let text = r#"{"lost":3,"something_new":{"x":1}}"#;
        let counts: Counts = serde_json::from_str(text).unwrap();
        assert_eq!(counts, Counts { lost: 3, ..Counts::default() });
    }
}
