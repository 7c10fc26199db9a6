//! A decision that is always too old by the time it is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_store::memory::Memory;
use bell_store::{Info, Kind, Name, Outcome, Result, Snapshot, Store, Timestamp, Txn, Watch};

/// A store on which every decision comes too late, although no record has changed.
struct TooLate {
    memory: Memory,
    commits: AtomicUsize,
}

#[async_trait::async_trait]
impl Store for TooLate {
    fn info(&self) -> &Info {
        self.memory.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.memory.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.memory.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.memory.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let expected: Vec<Name> = txn.expect.into_iter().map(|(name, _)| name).collect();
        Ok(Outcome::Conflict(self.memory.read(&expected).await?))
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.memory.changed(watch).await
    }
}

#[tokio::test]
async fn a_request_that_is_always_too_late_is_refused_after_a_few_tries() {
    let store = Arc::new(TooLate { memory: Memory::new(), commits: AtomicUsize::new(0) });
    let session = Session::new(Identity::default(), Keep::Detached).unwrap();
    let ask = Ask::new(Key::parse("job:a").unwrap());
    match Coord::new(store.clone()).acquire(&session, &ask).await {
        Err(Denied::Unavailable(error)) => assert_eq!(error.kind(), Kind::Unavailable),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.commits.load(Ordering::Relaxed), 9);
}
