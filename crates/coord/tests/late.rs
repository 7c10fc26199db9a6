//! Commits that come too late: always, and after their caller has gone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_store::memory::Memory;
use bell_store::txn::MAX_LAG;
use bell_store::{Info, Kind, Name, Outcome, Result, Snapshot, Store, Timestamp, Txn, Watch};
use tokio::sync::Semaphore;

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

/// A store whose first commit lands when it is let go, whether or not anybody still waits for it.
struct Held {
    memory: Arc<Memory>,
    first: Arc<Semaphore>,
    commits: AtomicUsize,
}

#[async_trait::async_trait]
impl Store for Held {
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
        if self.commits.fetch_add(1, Ordering::Relaxed) > 0 {
            return self.memory.commit(txn).await;
        }
        let (memory, first) = (Arc::clone(&self.memory), Arc::clone(&self.first));
        let landed = tokio::spawn(async move {
            let _go = first.acquire().await;
            memory.commit(txn).await
        });
        landed.await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.memory.changed(watch).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_lands_after_its_caller_has_gone_is_given_back_though_its_session_has_ended() {
    // On a machine that stalls, the decision has grown too old to land; then once more.
    for _ in 0..50 {
        if lands_late().await {
            return;
        }
    }
    panic!("it never landed");
}

/// Whether it landed; then it was given back.
async fn lands_late() -> bool {
    let store = Arc::new(Held {
        memory: Arc::new(Memory::new()),
        first: Arc::new(Semaphore::new(0)),
        commits: AtomicUsize::new(0),
    });
    let coord = Coord::new(store.clone());
    let session = Session::new(Identity::default(), Keep::Attended).unwrap();
    let key = Key::parse("job:a").unwrap();
    let ask = Ask::new(key.clone());
    let asking = coord.acquire(&session, &ask);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), asking).await.is_err(),
        "its commit is under way"
    );
    // The caller is gone, has looked and found nothing, and has ended a session that nobody has stored yet.
    coord.end(&session).await.unwrap();
    store.first.add_permits(1);
    let is_held = async || !coord.show(&key).await.unwrap().holders.is_empty();
    let until = async |wanted: bool, within: Duration| {
        let met = async {
            while is_held().await != wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(within, met).await.is_ok()
    };
    if !until(true, MAX_LAG).await {
        return false;
    }
    // Long before its session would run out.
    assert!(
        until(false, Duration::from_secs(10)).await,
        "nobody knows of this grant, and nobody gave it back"
    );
    true
}
