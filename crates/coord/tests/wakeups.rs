//! No wake-up is lost, whenever a grant comes.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bell_coord::{Ask, Coord, Keep, Lease, Session};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_store::memory::Memory;
use bell_store::{Info, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch};

/// More reads than a waiter makes before it sleeps.
const READS: usize = 8;

/// A store on which a key is given back right after a certain read, before its reader has the answer; when
/// somebody falls asleep at the latest.
struct GivesBack {
    memory: Arc<Memory>,
    reads_before: AtomicUsize,
    gift: Mutex<Option<(Coord, Session, Lease)>>,
}

#[async_trait::async_trait]
impl Store for GivesBack {
    fn info(&self) -> &Info {
        self.memory.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.memory.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        let snapshot = self.memory.read(names).await?;
        if self.reads_before.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.give_back().await;
        }
        Ok(snapshot)
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.memory.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.memory.commit(txn).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        // Where there are fewer reads than that.
        self.give_back().await;
        self.memory.changed(watch).await
    }

    fn presence(&self) -> &dyn Presence {
        self.memory.presence()
    }
}

impl GivesBack {
    async fn give_back(&self) {
        let gift = self.gift.lock().unwrap().take();
        if let Some((coord, holder, lease)) = gift {
            coord.release(&holder, &lease).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_waiter_is_woken_whenever_the_key_is_given_back() {
    for reads_before in 1..=READS {
        let memory = Arc::new(Memory::new());
        let coord = Coord::new(memory.clone());
        // Nobody keeps them alive, so no heartbeat wakes a waiter by chance.
        let session = || Session::new(Identity::default(), Keep::Detached).unwrap();
        let (holder, waiter) = (session(), session());
        let ask = || Ask::new(Key::parse("job:a").unwrap());
        let lease = coord.acquire(&holder, &ask()).await.unwrap().remove(0);
        let gift = Mutex::new(Some((coord, holder, lease)));
        let waiting =
            Coord::new(Arc::new(GivesBack { memory, reads_before: AtomicUsize::new(reads_before), gift }));
        let ask = ask().wait(Duration::from_secs(3_600));
        let answer = tokio::time::timeout(Duration::from_secs(10), waiting.acquire(&waiter, &ask)).await;
        answer.unwrap_or_else(|_| panic!("released after read {reads_before}: never woken")).unwrap();
    }
}
