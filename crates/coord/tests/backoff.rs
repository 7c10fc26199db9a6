//! A store that never says what became of a commit is asked a few times, and the caller is told in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::session::Identity;
use bell_store::memory::Memory;
use bell_store::{Error, Info, Kind, Name, Outcome, Result, Snapshot, Store, Timestamp, Txn, Watch};

/// A disk that fails with each commit that writes.
struct Failing {
    inner: Memory,
    commits: AtomicU32,
}

#[async_trait]
impl Store for Failing {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.inner.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.inner.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.inner.scan(prefix, from, limit).await
    }

    async fn commit(&self, _txn: Txn) -> Result<Outcome> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        Err(Error::new(Kind::Unknown, "make the commit durable"))
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.inner.changed(watch).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_with_each_commit_is_asked_a_few_times_and_the_caller_is_told() {
    let store = Arc::new(Failing { inner: Memory::new(), commits: AtomicU32::new(0) });
    let coord = Coord::new(Arc::clone(&store) as Arc<dyn Store>);
    let session = Session::new(Identity::default(), Keep::Attended).unwrap();
    let begun = tokio::time::Instant::now();
    let ask = Ask::new("job://a".parse().unwrap());
    let denied = coord.acquire(&session, &ask).await.unwrap_err();
    assert!(matches!(&denied, Denied::Unavailable(error) if error.kind() == Kind::Unknown), "{denied}");
    // At least half of each pause: not all six in a row.
    let in_time = Duration::from_millis(375)..Duration::from_secs(2);
    assert!(in_time.contains(&begun.elapsed()), "took {:?}", begun.elapsed());
    let commits = store.commits.load(Ordering::SeqCst);
    assert!((2..=10).contains(&commits), "{commits} commits");
}
