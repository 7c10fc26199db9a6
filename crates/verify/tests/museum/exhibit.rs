//! A store with a flaw: it does everything as the store below it, but for one thing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_coord::Denied;
use bell_locks::locks::StoreLocks;
use bell_store::{Info, Name, Outcome, Presence, Result, Revision, Snapshot, Store, Timestamp, Txn, Watch};
use bell_verify::{Open, Opened};

use crate::locks::{FlawedLocks, LockFlaw};
use crate::{clocks, commits, fences, reads};

/// What may be wrong with a store. What a flaw does not replace is as it should be.
#[async_trait]
pub(crate) trait Flaw: Send + Sync + 'static {
    async fn commit(&self, store: &Arc<dyn Store>, txn: Txn) -> Result<Outcome> {
        store.commit(txn).await
    }

    async fn read(&self, store: &Arc<dyn Store>, names: &[Name]) -> Result<Snapshot> {
        store.read(names).await
    }

    async fn changed(&self, store: &Arc<dyn Store>, watch: &Watch) -> Result<()> {
        store.changed(watch).await
    }

    /// What is shown when the clock shows this.
    fn time(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// The fence that is made of this revision.
    fn fence(&self, revision: Revision) -> Revision {
        revision
    }
}

/// No flaw.
struct Sound;

impl Flaw for Sound {}

/// Every exhibit.
pub(crate) const NAMES: &[&str] = &[
    "unchecked",
    "check-then-act",
    "unguarded",
    "any-version",
    "piecemeal",
    "write-behind",
    "forgetful",
    "counter-in-memory",
    "coarse-fence",
    "fast-clock",
    "wall-clock",
    "jumping-clock",
    "backward-clock",
    "stale-reads",
    "deaf",
    "anyones-release",
    "resurrection",
    "one-by-one",
    "lost-release",
    "blind-to-cycles",
    "endless-session",
];

/// Opens exhibits.
pub(crate) struct Museum;

#[async_trait]
impl Open for Museum {
    async fn open(&self, url: &str) -> Result<Opened, Denied> {
        let (flaw, below) = url.strip_prefix("museum+").and_then(|rest| rest.split_once(':')).unwrap();
        let store = bell_locks::open::open_store(below).await?;
        let revision = store.read(&[]).await?.revision;
        let flaw: Arc<dyn Flaw> = match flaw {
            "unchecked" => Arc::new(commits::Unchecked),
            "check-then-act" => Arc::new(commits::CheckThenAct),
            "unguarded" => Arc::new(commits::Unguarded),
            "any-version" => Arc::new(commits::AnyVersion),
            "piecemeal" => Arc::new(commits::Piecemeal),
            "write-behind" => Arc::new(commits::WriteBehind),
            "forgetful" => Arc::new(commits::Forgetful::default()),
            "counter-in-memory" => Arc::new(fences::CounterInMemory { opened_at: revision }),
            "coarse-fence" => Arc::new(fences::Coarse),
            "fast-clock" => Arc::new(clocks::Fast),
            "wall-clock" => Arc::new(clocks::Wall),
            "jumping-clock" => Arc::new(clocks::Jumping),
            "backward-clock" => Arc::new(clocks::Backward),
            "stale-reads" => Arc::new(reads::Stale::default()),
            "deaf" => Arc::new(reads::Deaf),
            "none" => Arc::new(Sound),
            in_the_locks => {
                let flaw = LockFlaw::named(in_the_locks);
                let locks =
                    Arc::new(FlawedLocks { flaw, locks: Arc::new(StoreLocks::new(Arc::clone(&store))) });
                return Ok(Opened { store, locks });
            }
        };
        Ok(Opened::over(Arc::new(Flawed { info: store.info().clone(), store, flaw })))
    }
}

/// Far enough from now that no clock shows both; a multiple of what clocks that go to and fro take.
const ELSEWHEN: Duration = Duration::from_secs(1_000);

struct Flawed {
    info: Info,
    store: Arc<dyn Store>,
    flaw: Arc<dyn Flaw>,
}

impl Flawed {
    fn shown(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.now = self.flaw.time(snapshot.now);
        for record in snapshot.records.values_mut() {
            record.stamp = self.flaw.fence(record.stamp);
        }
        snapshot
    }
}

#[async_trait]
impl Store for Flawed {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.flaw.time(self.store.now().await?))
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        Ok(self.shown(self.flaw.read(&self.store, names).await?))
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        Ok(self.shown(self.store.scan(prefix, from, limit).await?))
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        // At two times: a clock that does not listen may show one of them by chance.
        let is_shown = |at: Timestamp| [at, at + ELSEWHEN].iter().all(|at| self.flaw.time(*at) == *at);
        let is_own_time = txn.at.is_none_or(is_shown);
        // A time that only this store shows says nothing to the one below.
        let at = if is_own_time { txn.at } else { None };
        Ok(match self.flaw.commit(&self.store, Txn { at, ..txn }).await? {
            Outcome::Committed(mut done) => {
                done.now = self.flaw.time(done.now);
                done.revision = self.flaw.fence(done.revision);
                Outcome::Committed(done)
            }
            Outcome::Conflict(seen) => Outcome::Conflict(self.shown(seen)),
        })
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.flaw.changed(&self.store, watch).await
    }

    fn stirs(&self) -> u64 {
        self.store.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        self.store.presence()
    }
}
