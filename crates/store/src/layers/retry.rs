//! Trying again after failures that pass by themselves.
//!
//! Only [`Kind::is_transient`] failures are tried again: they promise that nothing happened. A commit of
//! [`Kind::Unknown`] outcome never is, since sent a second time it could find its own first copy, conflict,
//! and tell a caller who has what it asked for that it has not. Whoever asked must read and decide.
//!
//! [`Kind::is_transient`]: crate::Kind::is_transient
//! [`Kind::Unknown`]: crate::Kind::Unknown

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use crate::error::{Error, Result};
use crate::record::{Name, Snapshot, Timestamp};
use crate::txn::{Outcome, Txn, Watch};
use crate::{Info, Presence, Store};

/// How often, and for how long, to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Attempts in all, the first one included.
    pub attempts: u32,
    /// No attempt starts later than this after the first failure.
    pub within: Duration,
    /// The first pause; each one after it is twice as long.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for Patience {
    /// Rides out a restart of a server, and gives up well inside the five seconds in which the holder of
    /// a lease of 15 seconds should hear that its renewal failed.
    fn default() -> Self {
        Self {
            attempts: 6,
            within: Duration::from_secs(3),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(1),
        }
    }
}

impl Patience {
    /// The pause after the attempt of this number (from one), before it is scattered.
    fn pause_after(&self, attempt: u32) -> Duration {
        let doubled = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_pause.saturating_mul(doubled).min(self.longest_pause)
    }
}

/// Tries again what failed for a moment.
pub struct Retry {
    inner: Arc<dyn Store>,
    patience: Patience,
    chance: RandomState,
}

impl Retry {
    /// Asks `inner` again, with this much patience.
    pub fn new(inner: Arc<dyn Store>, patience: Patience) -> Self {
        Self { inner, patience, chance: RandomState::new() }
    }

    async fn patiently<T, Answer>(&self, ask: impl Fn() -> Answer + Send + Sync) -> Result<T>
    where
        T: Send,
        Answer: Future<Output = Result<T>> + Send,
    {
        // Counted from the first failure, since a wait for changes may fail after hours.
        let mut failing_since = None;
        let mut attempt = 1;
        loop {
            let error = match ask().await {
                Err(error) if error.kind().is_transient() => error,
                answer => return answer,
            };
            let since = *failing_since.get_or_insert_with(Instant::now);
            let pause = self.scattered(self.patience.pause_after(attempt));
            if attempt >= self.patience.attempts || since.elapsed() + pause > self.patience.within {
                return Err(error);
            }
            log_pause(&error, attempt, pause);
            sleep(pause).await;
            attempt += 1;
        }
    }

    /// Between half of `pause` and all of it, so that those who failed together do not come back together.
    fn scattered(&self, pause: Duration) -> Duration {
        let half = pause / 2;
        let part = u32::try_from(self.chance.hash_one(Instant::now()) % 1_000).unwrap_or(0);
        half + half * part / 1_000
    }
}

fn log_pause(error: &Error, attempt: u32, pause: Duration) {
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(%error, attempt, pause_ms, "store unavailable, trying again");
}

#[async_trait]
impl Store for Retry {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.patiently(|| self.inner.now()).await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.patiently(|| self.inner.read(names)).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.patiently(|| self.inner.scan(prefix, from, limit)).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.patiently(|| self.inner.commit(txn.clone())).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.patiently(|| self.inner.changed(watch)).await
    }

    fn presence(&self) -> &dyn Presence {
        self.inner.presence()
    }

    fn stirs(&self) -> u64 {
        self.inner.stirs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::layers::scripted::Scripted;

    fn retrying(failures: u32, kind: Kind, patience: Patience) -> (Retry, Arc<Scripted>) {
        let inner = Arc::new(Scripted::failing(failures, kind));
        (Retry::new(Arc::clone(&inner) as Arc<dyn Store>, patience), inner)
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_passes_is_not_seen_by_the_caller() {
        let (store, inner) = retrying(2, Kind::Unavailable, Patience::default());
        store.read(&[]).await.unwrap();
        assert_eq!(inner.asked(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_certainly_did_not_happen_is_sent_again() {
        let (store, inner) = retrying(1, Kind::Unavailable, Patience::default());
        assert!(matches!(store.commit(Txn::default()).await.unwrap(), Outcome::Committed(_)));
        assert_eq!(inner.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_may_have_happened_is_sent_once() {
        let (store, inner) = retrying(1, Kind::Unknown, Patience::default());
        assert_eq!(store.commit(Txn::default()).await.unwrap_err().kind(), Kind::Unknown);
        assert_eq!(inner.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_stays_is_told_after_the_last_attempt() {
        let patience = Patience { attempts: 4, within: Duration::MAX, ..Patience::default() };
        let (store, inner) = retrying(u32::MAX, Kind::Unavailable, patience);
        assert_eq!(store.now().await.unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(inner.asked(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_when_the_time_is_over() {
        let patience = Patience { attempts: u32::MAX, ..Patience::default() };
        let (store, inner) = retrying(u32::MAX, Kind::Unavailable, patience);
        let started = Instant::now();
        store.now().await.unwrap_err();
        assert!(started.elapsed() <= patience.within, "took {:?}", started.elapsed());
        assert!(inner.asked() > 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_can_not_succeed_is_sent_once() {
        for kind in [Kind::Invalid, Kind::Unauthorized, Kind::ReadOnly, Kind::Full, Kind::Corrupt] {
            let (store, inner) = retrying(1, kind, Patience::default());
            assert_eq!(store.read(&[]).await.unwrap_err().kind(), kind);
            assert_eq!(inner.asked(), 1);
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let patience = Patience::default();
        let pauses = [1, 2, 3, 7, 40, u32::MAX].map(|attempt| patience.pause_after(attempt).as_millis());
        assert_eq!(pauses, [20, 40, 80, 1_000, 1_000, 1_000]);
    }
}
