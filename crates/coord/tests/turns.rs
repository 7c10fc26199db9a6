//! Many who join one queue at once: with a store that answers, and with one that has fallen silent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_store::memory::Memory;
use bell_store::{
    Error, Info, Kind, Name, Outcome, Presence, Result, Snapshot, Store, Timestamp, Txn, Watch,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// More than a short queue has places.
const MANY: usize = 100;
const ANSWERS_AFTER: Duration = Duration::from_micros(100);
/// How long it is waited for a store that is silent.
const TIME_LIMIT: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(600);

/// A store that takes a moment, so that others are at work meanwhile, until it answers nobody any more.
#[derive(Default)]
struct Distant {
    memory: Memory,
    is_silent: AtomicBool,
    conflicts: AtomicU64,
}

impl Distant {
    async fn answers(&self) -> Result<()> {
        if self.is_silent.load(Ordering::Relaxed) {
            sleep(TIME_LIMIT).await;
            return Err(Error::new(Kind::Unavailable, "hear from the store"));
        }
        sleep(ANSWERS_AFTER).await;
        Ok(())
    }
}

#[async_trait::async_trait]
impl Store for Distant {
    fn info(&self) -> &Info {
        self.memory.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.memory.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.answers().await?;
        self.memory.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.memory.scan(prefix, from, limit).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        self.answers().await?;
        let outcome = self.memory.commit(txn).await?;
        if matches!(outcome, Outcome::Conflict(_)) {
            self.conflicts.fetch_add(1, Ordering::Relaxed);
        }
        Ok(outcome)
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.memory.changed(watch).await
    }

    fn presence(&self) -> &dyn Presence {
        self.memory.presence()
    }
}

fn key() -> Key {
    Key::parse("job:a").unwrap()
}

fn session() -> Session {
    Session::new(Identity::default(), Keep::Detached).unwrap()
}

/// Many that ask together for a key.
fn join(coord: &Coord) -> JoinSet<Result<(), Denied>> {
    let ask =
        |coord: Coord| async move { coord.acquire(&session(), &Ask::new(key()).wait(WAIT)).await.map(drop) };
    (0..MANY).map(|_| ask(coord.clone())).collect()
}

/// A key that is held, and many that wait for it. They leave when they are dropped.
async fn queued(store: &Arc<Distant>) -> (Coord, JoinSet<Result<(), Denied>>) {
    let coord = Coord::new(store.clone());
    coord.acquire(&session(), &Ask::new(key())).await.unwrap();
    let joining = join(&coord);
    while coord.show(&key()).await.unwrap().waiting.len() < MANY {
        sleep(Duration::from_millis(1)).await;
    }
    (coord, joining)
}

#[tokio::test(start_paused = true)]
async fn those_who_join_a_long_queue_do_not_get_in_each_others_way() {
    let store = Arc::new(Distant::default());
    let (_coord, _waiting) = queued(&store).await;
    // Each finds out once that the key is held; as long as the queue is short, they try again at once. Were all of them to do
    // that to the end, it would be a conflict for every two of them.
    let conflicts = store.conflicts.load(Ordering::Relaxed);
    assert!(conflicts < (MANY * MANY / 4) as u64, "{conflicts}");
}

#[tokio::test(start_paused = true)]
async fn behind_a_store_that_is_silent_nobody_stands_for_one_time_limit_after_the_other() {
    let store = Arc::new(Distant::default());
    let (coord, _waiting) = queued(&store).await;
    let mut joining = join(&coord);
    // They have found out that the queue is long, and the first of them has its turn.
    sleep(ANSWERS_AFTER * 3).await;
    store.is_silent.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    while let Some(denied) = joining.join_next().await {
        assert!(matches!(denied.unwrap(), Err(Denied::Unavailable(_))));
    }
    assert!(begun.elapsed() < TIME_LIMIT * 3, "{:?}", begun.elapsed());
}
