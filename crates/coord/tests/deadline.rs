//! A holder counts its lease from before it asked, however long the answer took to arrive.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bell_coord::{Ask, Coord, Keep, Session};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::Identity;
use bell_store::clock::boottime;
use bell_store::memory::Memory;
use bell_store::{Info, Name, Outcome, Result, Snapshot, Store, Timestamp, Txn, Watch};

/// How late answers are. More than the millisecond that clocks are rounded to is enough.
const LATE: Duration = Duration::from_millis(300);

/// A store whose answers are late once it is told so. It remembers when it was last asked.
struct LateAnswers {
    memory: Arc<Memory>,
    late: AtomicBool,
    asked: Mutex<Duration>,
}

#[async_trait::async_trait]
impl Store for LateAnswers {
    fn info(&self) -> &Info {
        self.memory.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.memory.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        *self.asked.lock().unwrap() = boottime();
        let snapshot = self.memory.read(names).await;
        if self.late.load(Ordering::SeqCst) {
            tokio::time::sleep(LATE).await;
        }
        snapshot
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.memory.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        *self.asked.lock().unwrap() = boottime();
        let outcome = self.memory.commit(txn).await;
        if self.late.load(Ordering::SeqCst) {
            tokio::time::sleep(LATE).await;
        }
        outcome
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.memory.changed(watch).await
    }
}

fn session() -> Session {
    Session::new(Identity::default(), Keep::Detached).unwrap()
}

#[tokio::test]
async fn a_waiter_that_hears_late_that_it_was_served_counts_from_when_it_asked() {
    let memory = Arc::new(Memory::new());
    let late = Arc::new(LateAnswers {
        memory: Arc::clone(&memory),
        late: AtomicBool::new(false),
        asked: Mutex::default(),
    });
    let (at_once, slowly) = (Coord::new(memory), Coord::new(late.clone()));
    let (key, ttl) = (Key::parse("job:a").unwrap(), Ttl::new(Duration::from_secs(60)).unwrap());
    let (ann, bob) = (session(), session());
    let held = at_once.acquire(&ann, &Ask::new(key.clone())).await.unwrap().remove(0);
    let ask = Ask::new(key.clone()).ttl(ttl).wait(Duration::from_secs(60));
    let waiting = tokio::spawn(async move { slowly.acquire(&bob, &ask).await });
    while at_once.show(&key).await.unwrap().waiting.is_empty() {
        tokio::task::yield_now().await;
    }
    late.late.store(true, Ordering::SeqCst);
    at_once.release(&ann, &held).await.unwrap();
    let lease = waiting.await.unwrap().unwrap().remove(0);
    let counted = lease.deadline.saturating_sub(*late.asked.lock().unwrap());
    assert!(counted <= ttl.length() - ttl.margin() + LATE / 2, "{counted:?} from when it asked");
}
