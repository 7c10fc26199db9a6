//! A store whose answers get lost: what was committed is told as unknown, again and again. Locks on it keep
//! the lock contract all the same. A store that refuses is told as unavailable, and grants nothing.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bell_locks::conformance::InProcess;
use bell_locks::locks::StoreLocks;
use bell_locks::{Ask, Denied, Identity, Keep, Key, LockBackend, Session};
use bell_store::memory::Memory;
use bell_store::{
    Error, Info, Kind, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch,
};

/// A memory store that fails with some commits, before or after they have happened.
struct Lossy {
    inner: Memory,
    commits: AtomicU32,
    fails: fn(u32) -> Option<Kind>,
}

impl Lossy {
    fn locks(fails: fn(u32) -> Option<Kind>) -> StoreLocks {
        StoreLocks::new(Arc::new(Self { inner: Memory::new(), commits: AtomicU32::new(0), fails }))
    }
}

#[async_trait]
impl Store for Lossy {
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

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        match (self.fails)(self.commits.fetch_add(1, Ordering::SeqCst)) {
            None => self.inner.commit(txn).await,
            Some(Kind::Unknown) => {
                self.inner.commit(txn).await?;
                Err(Error::new(Kind::Unknown, "hear the answer"))
            }
            Some(kind) => Err(Error::new(kind, "commit")),
        }
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.inner.changed(watch).await
    }

    fn stirs(&self) -> u64 {
        self.inner.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        self.inner.presence()
    }
}

bell_locks::lock_conformance!(InProcess::new(Lossy::locks(
    |commit| (commit % 3 == 0).then_some(Kind::Unknown)
)));

fn key() -> Key {
    Key::parse("job:a").unwrap()
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_the_one_grant() {
    let locks = Lossy::locks(|commit| (commit == 0).then_some(Kind::Unknown));
    let session = Session::new(Identity::default(), Keep::Detached).unwrap();
    let lease = locks.acquire(&session, &Ask::new(key())).await.unwrap().remove(0);
    let holders = locks.is_held(&key()).await.unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].fence, Some(lease.fence));
    assert!(!lease.already_held);
}

#[tokio::test]
async fn a_store_that_refuses_grants_nothing() {
    for kind in [Kind::Unavailable, Kind::Full, Kind::ReadOnly] {
        let fails = match kind {
            Kind::Unavailable => |commit| (commit == 0).then_some(Kind::Unavailable),
            Kind::Full => |commit| (commit == 0).then_some(Kind::Full),
            _ => |commit| (commit == 0).then_some(Kind::ReadOnly),
        };
        let locks = Lossy::locks(fails);
        let session = Session::new(Identity::default(), Keep::Detached).unwrap();
        match locks.acquire(&session, &Ask::new(key())).await {
            Err(Denied::Unavailable(error)) => assert_eq!(error.kind(), kind),
            other => panic!("{other:?}"),
        }
        assert!(locks.is_held(&key()).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_break_whose_answer_was_lost_leaves_the_successor_alone() {
    // The holder, the waiter, the break: the third commit is told as unknown.
    let locks = Arc::new(Lossy::locks(|commit| (commit == 2).then_some(Kind::Unknown)));
    let [holder, waiter] = [(); 2].map(|()| Session::new(Identity::default(), Keep::Detached).unwrap());
    let first = locks.acquire(&holder, &Ask::new(key())).await.unwrap().remove(0);
    let wait = Ask::new(key()).wait(std::time::Duration::from_secs(20));
    let waiting = {
        let (locks, waiter) = (Arc::clone(&locks), waiter.clone());
        tokio::spawn(async move { locks.acquire(&waiter, &wait).await })
    };
    while locks.show(&key()).await.unwrap().waiting.is_empty() {
        tokio::task::yield_now().await;
    }
    let broken = locks.break_lock(&key(), "stuck", "operator").await.unwrap();
    assert_eq!(broken.holders[0].fence, Some(first.fence));
    let next = waiting.await.unwrap().unwrap().remove(0);
    assert_eq!(locks.is_held(&key()).await.unwrap()[0].fence, Some(next.fence));
}
