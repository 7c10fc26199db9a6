//! The store of one process: a map under a mutex, gone with the process.
//!
//! For one scheduler that needs no memory of yesterday, for tests, and as the plainest reading of the
//! contract: what this store does is what every other store must look like from outside.

mod clock;
mod sessions;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;

pub use self::clock::ManualClock;
use self::clock::StoreClock;
use self::sessions::Sessions;
use crate::error::Result;
use crate::hub::Hub;
use crate::info::{Clock, Concern, Durability, FailOver, Info, Limits, Push, Scope, Warning};
use crate::record::{Name, Record, Revision, Snapshot, Timestamp};
use crate::txn::{Committed, Outcome, Txn, Watch, Write};
use crate::{Presence, Store};

/// A store in memory. Handles are made by cloning the `Arc` around it.
pub struct Memory {
    info: Info,
    state: Mutex<State>,
    clock: Arc<StoreClock>,
    hub: Arc<Hub>,
    sessions: Arc<Sessions>,
}

impl Memory {
    /// An empty store whose clock is the machine's time since boot, set to the wall clock once, now.
    pub fn new() -> Self {
        Self::on(StoreClock::boottime(), Clock::Boottime)
    }

    /// An empty store whose clock stands still until it is moved.
    pub fn with_manual_clock() -> (Self, ManualClock) {
        let store = Self::on(StoreClock::manual(), Clock::Manual);
        let clock = ManualClock::of(&store.clock, &store.hub);
        (store, clock)
    }

    fn on(clock: StoreClock, kind: Clock) -> Self {
        let hub = Arc::new(Hub::default());
        Self {
            info: info(kind),
            state: Mutex::default(),
            clock: Arc::new(clock),
            sessions: Arc::new(Sessions::new(Arc::clone(&hub))),
            hub,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this mutex leaves the state half-written when it panics.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

fn info(clock: Clock) -> Info {
    Info {
        scheme: "memory",
        location: "this process".to_owned(),
        scope: Scope::Process,
        durability: Durability::Volatile,
        fail_over: FailOver::None,
        clock,
        push: Push::Push,
        notices_death: true,
        limits: Limits::CONTRACT,
        warnings: vec![Warning::new(
            Concern::Durability,
            "everything is forgotten when the process ends; use sqlite for what must last",
        )],
    }
}

#[async_trait]
impl Store for Memory {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        Ok(self.lock().read(names, &self.clock))
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        Ok(self.lock().scan(prefix, from, limit.min(self.info.limits.page), &self.clock))
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        let mut txn = txn;
        txn.check(&self.info.limits)?;
        let outcome = self.lock().commit(&mut txn, &self.clock);
        if let Outcome::Committed(_) = outcome {
            self.hub.committed(txn.written());
        }
        Ok(outcome)
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.hub.changed(self, watch).await
    }

    fn stirs(&self) -> u64 {
        self.hub.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        &self.sessions
    }
}

#[derive(Default)]
struct State {
    revision: Revision,
    records: BTreeMap<Name, Record>,
}

impl State {
    fn read<'a>(&self, names: impl IntoIterator<Item = &'a Name>, clock: &StoreClock) -> Snapshot {
        let found = |name: &Name| Some((name.clone(), self.records.get(name)?.clone()));
        let records = names.into_iter().filter_map(found).collect();
        Snapshot { revision: self.revision, now: clock.now(), records, more: false }
    }

    fn scan(&self, prefix: &str, from: &str, limit: usize, clock: &StoreClock) -> Snapshot {
        let start = Bound::Included(prefix.max(from));
        let mut matching = self
            .records
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(name, _)| name.as_str().starts_with(prefix));
        let page = matching.by_ref().take(limit);
        let records = page.map(|(name, record)| (name.clone(), record.clone())).collect();
        Snapshot { revision: self.revision, now: clock.now(), records, more: matching.next().is_some() }
    }

    /// Takes the values out of the transaction, and leaves the names of what it wrote.
    fn commit(&mut self, txn: &mut Txn, clock: &StoreClock) -> Outcome {
        // There is no queue, so it was asked for just now.
        let now = clock.now();
        let version = |name: &Name| self.records.get(name).map_or(0, |record| record.version);
        if !txn.time_holds(now) || !txn.expectations_hold(version) {
            return Outcome::Conflict(self.read(txn.expect.iter().map(|(name, _)| name), clock));
        }
        if !txn.writes.is_empty() {
            self.revision += 1;
        }
        for (name, write) in &mut txn.writes {
            self.write(name, std::mem::replace(write, Write::Delete));
        }
        Outcome::Committed(Committed { revision: self.revision, now })
    }

    fn write(&mut self, name: &Name, write: Write) {
        let found = self.records.get_mut(name);
        match (write.leaves(found.as_ref().map(|record| record.stamp), self.revision), found) {
            (Some(record), Some(found)) => *found = record,
            (Some(record), None) => drop(self.records.insert(name.clone(), record)),
            (None, Some(_)) => drop(self.records.remove(name)),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::txn::{MAX_LAG, Stamp};

    fn put(at: Timestamp) -> Txn {
        let writes = vec![("a".into(), Write::Put(b"1".to_vec(), Stamp::New))];
        Txn { at: Some(at), writes, ..Txn::default() }
    }

    #[tokio::test]
    async fn a_manual_clock_moves_only_when_told() {
        let (store, clock) = Memory::with_manual_clock();
        let start = store.now().await.unwrap();
        assert_eq!(store.read(&[]).await.unwrap().now, start);
        clock.advance(Duration::from_secs(5));
        assert_eq!(store.now().await.unwrap(), start + Duration::from_secs(5));
    }

    #[tokio::test]
    async fn the_time_of_a_transaction_holds_until_the_allowed_lag_is_over() {
        let (store, clock) = Memory::with_manual_clock();
        let at = store.now().await.unwrap();
        clock.advance(MAX_LAG);
        assert!(matches!(store.commit(put(at)).await.unwrap(), Outcome::Committed(_)));
        clock.advance(Duration::from_millis(1));
        assert!(matches!(store.commit(put(at)).await.unwrap(), Outcome::Conflict(_)));
    }

    #[tokio::test]
    async fn moving_the_clock_makes_those_who_wait_decide_again() {
        let (store, clock) = Memory::with_manual_clock();
        let watch = Watch::Names(vec![("a".into(), 0)]);
        let (woken, ()) = tokio::join!(biased; store.changed(&watch), async {
            clock.advance(Duration::from_secs(1));
        });
        woken.unwrap();
    }

    #[tokio::test]
    async fn a_session_that_goes_makes_those_who_wait_decide_again() {
        let store = Memory::new();
        let attendance = store.presence().attend("s").unwrap();
        let watch = Watch::Names(vec![("a".into(), 0)]);
        let (woken, ()) = tokio::join!(biased; store.changed(&watch), async move { drop(attendance) });
        woken.unwrap();
        assert!(store.presence().is_gone("s"));
    }
}
