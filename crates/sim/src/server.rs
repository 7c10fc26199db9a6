//! The store's own machine: the memory store on its clock, with a checker that sees every commit as it is applied.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bell_core::time::Timestamp;
use bell_store::memory::Memory;
use bell_store::{
    Committed, Error, Info, Kind, Name, Outcome, Presence, Result, Snapshot, Store, Txn, Watch,
};

use crate::checker::Checker;
use crate::flaws::{Flaw, bend, blur, shift};
use crate::journal::Event;
use crate::process::{Process, at_once, on_machine_of};

/// The store, where it runs.
pub struct Server {
    memory: Memory,
    process: Arc<Process>,
    flaw: Option<Flaw>,
    checker: Mutex<Checker>,
    requests: AtomicU64,
}

impl Server {
    /// An empty store on the machine of `process`.
    pub fn start(process: Arc<Process>, checker: Checker, flaw: Option<Flaw>) -> Arc<Self> {
        let memory = at_once(&process, async { Memory::new() }).unwrap_or_default();
        Arc::new(Self { memory, process, flaw, checker: Mutex::new(checker), requests: AtomicU64::new(0) })
    }

    /// How often it was asked for something.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// What the store promises.
    pub fn info(&self) -> &Info {
        self.memory.info()
    }

    pub(crate) fn presence(&self) -> &dyn Presence {
        self.memory.presence()
    }

    pub(crate) fn stirs(&self) -> u64 {
        self.memory.stirs()
    }

    pub(crate) fn now(&self) -> Timestamp {
        at_once(&self.process, self.memory.now()).and_then(Result::ok).unwrap_or_default()
    }

    pub(crate) fn now_for(&self, from: &Process) -> Timestamp {
        shift(self.now(), self.ahead(from))
    }

    pub(crate) fn read(&self, from: &Process, names: &[Name]) -> Result<Snapshot> {
        self.seen(from, self.answer(self.memory.read(names)))
    }

    pub(crate) fn scan(&self, from: &Process, prefix: &str, start: &str, limit: usize) -> Result<Snapshot> {
        self.seen(from, self.answer(self.memory.scan(prefix, start, limit)))
    }

    pub(crate) fn commit(&self, from: &Process, mut txn: Txn) -> Result<Outcome> {
        let ahead = self.ahead(from);
        txn.at = txn.at.map(|at| shift(at, -ahead));
        if let Some(flaw) = self.flaw {
            match bend(flaw, txn, &self.process.chance) {
                Some(bent) => txn = bent,
                None => return self.pretend(),
            }
        }
        let writes = txn.writes.clone();
        match self.answer(self.memory.commit(txn))? {
            Outcome::Committed(Committed { revision, now }) => {
                self.checker().commit(&from.name, revision, now, &writes);
                Ok(Outcome::Committed(Committed { revision, now: shift(now, ahead) }))
            }
            Outcome::Conflict(snapshot) => self.seen(from, Ok(snapshot)).map(Outcome::Conflict),
        }
    }

    /// Returns when the store says that something watched has changed.
    pub(crate) async fn changed(&self, watch: &Watch) -> Result<()> {
        on_machine_of(&self.process, self.memory.changed(watch)).await
    }

    /// Tells the checker what happened outside the store.
    pub(crate) fn happened(&self, who: &Process, event: &Event<'_>) {
        let now = self.now();
        self.checker().happened(&who.name, now, event);
    }

    /// Notes what was done to the fleet.
    pub(crate) fn note(&self, what: &'static str, words: impl FnOnce() -> String) {
        let now = self.now();
        self.checker().note(now, what, words);
    }

    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the clock that this caller goes by is ahead of the store's: not at all, unless that is the flaw.
    fn ahead(&self, from: &Process) -> i64 {
        if self.flaw == Some(Flaw::ExpiryByOwnClock) { from.machine.skew_ms() } else { 0 }
    }

    fn seen(&self, from: &Process, snapshot: Result<Snapshot>) -> Result<Snapshot> {
        let mut snapshot = snapshot?;
        snapshot.now = shift(snapshot.now, self.ahead(from));
        if let Some(flaw) = self.flaw {
            blur(flaw, &mut snapshot);
        }
        Ok(snapshot)
    }

    /// Says that it has committed.
    fn pretend(&self) -> Result<Outcome> {
        let seen = self.answer(self.memory.read(&[]))?;
        Ok(Outcome::Committed(Committed { revision: seen.revision + 1, now: seen.now }))
    }

    /// The memory store answers at once whatever it is asked.
    fn answer<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        at_once(&self.process, asked)
            .unwrap_or_else(|| Err(Error::new(Kind::Unavailable, "answer at once, as a memory store does")))
    }
}
