//! No wake-up is lost, whenever a grant comes.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bell_coord::{Ask, Coord, Keep, Lease, Session};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_store::memory::Memory;
use bell_store::presence::Attendance;
use bell_store::{Info, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch};

/// More reads than a waiter makes before it sleeps.
const READS: usize = 8;

/// A store on which a key becomes free right after a certain read, before its reader has the answer; when
/// somebody falls asleep at the latest.
struct GivesBack {
    memory: Arc<Memory>,
    reads_before: AtomicUsize,
    gift: Mutex<Option<Gift>>,
}

/// How the key becomes free.
enum Gift {
    /// Its holder gives it back.
    Release(Coord, Session, Lease),
    /// Its holder dies: no record shows it.
    Death(Attendance),
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

    fn stirs(&self) -> u64 {
        self.memory.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        self.memory.presence()
    }
}

impl GivesBack {
    async fn give_back(&self) {
        let gift = self.gift.lock().unwrap().take();
        match gift {
            Some(Gift::Release(coord, holder, lease)) => coord.release(&holder, &lease).await.unwrap(),
            Some(Gift::Death(attendance)) => drop(attendance),
            None => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_whenever_the_key_is_given_back() {
    woken_by(|_, coord, holder, lease| Gift::Release(coord, holder, lease)).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_whenever_the_holder_dies() {
    woken_by(|memory, _, holder, _| Gift::Death(memory.presence().attend(holder.id().as_str()).unwrap()))
        .await;
}

/// Waits for a key that becomes free at every moment in turn.
async fn woken_by(gift: impl Fn(&Memory, Coord, Session, Lease) -> Gift) {
    for reads_before in 1..=READS {
        let memory = Arc::new(Memory::new());
        let coord = Coord::new(memory.clone());
        // Nobody keeps them alive, so no heartbeat wakes a waiter by chance.
        let session = || Session::new(Identity::default(), Keep::Detached).unwrap();
        let (holder, waiter) = (session(), session());
        let ask = || Ask::new(Key::parse("job:a").unwrap());
        let lease = coord.acquire(&holder, &ask()).await.unwrap().remove(0);
        let gift = Mutex::new(Some(gift(&memory, coord, holder, lease)));
        let waiting =
            Coord::new(Arc::new(GivesBack { memory, reads_before: AtomicUsize::new(reads_before), gift }));
        let ask = ask().wait(Duration::from_secs(3_600));
        // A waiter that nobody wakes looks after five seconds all the same.
        let answer = tokio::time::timeout(Duration::from_secs(1), waiting.acquire(&waiter, &ask)).await;
        answer.unwrap_or_else(|_| panic!("free after read {reads_before}: never woken")).unwrap();
    }
}
