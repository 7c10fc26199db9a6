//! A time limit on each operation, so that a silent engine fails instead of hanging its callers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Kind, Result};
use crate::record::{Name, Snapshot, Timestamp};
use crate::txn::{Outcome, Txn, Watch};
use crate::{Info, Presence, Store};

/// Ends operations that take too long. [`Store::changed`] has no limit: it waits by design.
pub struct Timeout {
    inner: Arc<dyn Store>,
    limit: Duration,
}

impl Timeout {
    /// Gives each operation on `inner` this long.
    pub fn new(inner: Arc<dyn Store>, limit: Duration) -> Self {
        Self { inner, limit }
    }

    async fn limited<T>(
        &self,
        what: &str,
        late: Kind,
        operation: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        tokio::time::timeout(self.limit, operation).await.unwrap_or_else(|_| {
            let message = format!("{what} within {} ms", self.limit.as_millis());
            Err(Error::new(late, message).hint("See whether the store can be reached and is not overloaded."))
        })
    }
}

#[async_trait]
impl Store for Timeout {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.limited("ask the store for its time", Kind::Unavailable, self.inner.now()).await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.limited("read", Kind::Unavailable, self.inner.read(names)).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.limited("scan", Kind::Unavailable, self.inner.scan(prefix, from, limit)).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        // The engine may have it already: nobody can say that nothing happened.
        self.limited("hear of a commit", Kind::Unknown, self.inner.commit(txn)).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.inner.changed(watch).await
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
    use crate::layers::scripted::Scripted;

    const LIMIT: Duration = Duration::from_secs(2);

    fn silent() -> Timeout {
        Timeout::new(Arc::new(Scripted::silent()), LIMIT)
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_without_an_answer_is_unknown() {
        let error = silent().commit(Txn::default()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (Kind::Unknown, "hear of a commit within 2000 ms")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn anything_else_without_an_answer_is_unavailable() {
        let store = silent();
        assert_eq!(store.now().await.unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(store.read(&[]).await.unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(store.scan("", "", 1).await.unwrap_err().kind(), Kind::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_is_given_its_whole_limit_and_no_more() {
        let started = tokio::time::Instant::now();
        silent().now().await.unwrap_err();
        // The timer of the runtime counts whole milliseconds.
        assert_eq!(started.elapsed().as_millis(), LIMIT.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_change_has_no_limit() {
        let (store, watch) = (silent(), Watch::Prefix(String::new(), 0));
        let waited = tokio::time::timeout(LIMIT * 1_000, store.changed(&watch)).await;
        assert!(waited.is_err(), "it was still waiting");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_time_passes_through() {
        let store = Timeout::new(Arc::new(Scripted::failing(0, Kind::Unavailable)), LIMIT);
        assert!(matches!(store.commit(Txn::default()).await.unwrap(), Outcome::Committed(_)));
    }
}
