//! Bringing records into a view.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Lock;
use bell_core::session::{Session as Record, SessionId};
use bell_core::time::Version;
use bell_core::view::{Missing, Seen, View};
use bell_core::work::row::{Row, RowId};
use bell_store::clock::boottime;
use bell_store::info::Limits;
use bell_store::{Error, Kind, Name, Record as Stored, Snapshot};

use crate::Coord;
use crate::denied::Denied;
use crate::work::rows;

/// Records that were loaded for a decision.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) view: View,
    /// Something in the view was assumed rather than read. Only a commit, or a read, proves it.
    pub(crate) guessed: bool,
    /// On this machine's boot clock, before the request left that brought the time of the view. A lease that is found
    /// in the view is counted from here: counted from when the answer was heard, it would seem to last longer by
    /// however long that took.
    pub(crate) sent: Duration,
    /// How often the decision has asked for more.
    asked: u32,
}

impl Loaded {
    /// A view in which records are assumed to be as the caller last knew them.
    pub(crate) fn guess() -> Self {
        Self { guessed: true, ..Self::default() }
    }

    /// Assumes a lock; `None`: free.
    pub(crate) fn assume_lock(&mut self, key: &Key, known: Option<(Arc<Lock>, Version)>) {
        self.view.locks.insert(key.clone(), Seen::known(known));
    }

    /// Assumes a session; `None`: not stored yet.
    pub(crate) fn assume_session(&mut self, id: &SessionId, known: Option<(Arc<Record>, Version)>) {
        self.view.sessions.insert(id.clone(), Seen::known(known));
    }

    /// Assumes a record of the work; `None`: there is none.
    pub(crate) fn assume_row(&mut self, id: RowId, known: Option<(Row, Version)>) {
        let known = known.map(|(row, version)| (Arc::new(row), version));
        self.view.rows.insert(id, Seen::known(known));
    }

    /// The versions of everything in the view, in one order as long as nothing is added to it.
    pub(crate) fn versions(&self) -> Vec<Version> {
        let locks = self.view.locks.values().map(|seen| seen.version);
        let sessions = self.view.sessions.values().map(|seen| seen.version);
        locks.chain(sessions).chain(self.view.rows.values().map(|seen| seen.version)).collect()
    }

    /// Everything in the view, which is empty from now on.
    pub(crate) fn put_down(&mut self) -> Missing {
        let everything = self.everything();
        *self = Self { asked: self.asked, ..Self::default() };
        everything
    }

    /// Everything in the view.
    fn everything(&self) -> Missing {
        let locks = self.view.locks.keys().cloned().collect();
        let sessions = self.view.sessions.keys().cloned().collect();
        Missing { locks, sessions, rows: self.view.rows.keys().cloned().collect() }
    }

    /// What a search for cycles will ask for next, judging by what it has just got.
    fn next_hop(&self, got: &Missing) -> Missing {
        let mut next = Missing::default();
        for lock in got.locks.iter().filter_map(|key| self.view.locks.get(key)?.get()) {
            next.sessions.extend(lock.holders.iter().map(|holder| holder.session.clone()));
        }
        for session in got.sessions.iter().filter_map(|id| self.view.sessions.get(id)?.get()) {
            next.locks.extend(session.waits.iter().flat_map(|wait| wait.keys.iter().cloned()));
        }
        next.locks.retain(|key| !self.view.locks.contains_key(key));
        next.sessions.retain(|id| !self.view.sessions.contains_key(id));
        next
    }
}

impl Coord {
    /// Reads what a decision is missing.
    ///
    /// A decision that keeps asking is following a chain of waits. Each time it comes back, twice as many
    /// hops are read ahead, so a chain of thousands is decided a dozen times, not thousands of times.
    pub(crate) async fn load(&self, loaded: &mut Loaded, missing: &Missing) -> Result<(), Denied> {
        self.read_in(loaded, missing).await?;
        let hops = (1_u32 << loaded.asked.min(16)) / 4;
        loaded.asked += 1;
        let mut got = missing.clone();
        for _ in 0..hops {
            let next = loaded.next_hop(&got);
            if next.is_empty() {
                break;
            }
            self.read_in(loaded, &next).await?;
            got = next;
        }
        Ok(())
    }

    /// Reads everything in the view again, as of one revision where it fits one read.
    pub(crate) async fn reload(&self, loaded: &mut Loaded) -> Result<(), Denied> {
        let everything = loaded.everything();
        self.read_in(loaded, &everything).await?;
        loaded.guessed = false;
        Ok(())
    }

    pub(crate) async fn read_in(&self, loaded: &mut Loaded, wanted: &Missing) -> Result<(), Denied> {
        let locks = wanted.locks.iter().map(|key| self.space().lock(key));
        let sessions = wanted.sessions.iter().map(|id| self.space().session(id));
        let rows = wanted.rows.iter().map(|id| self.space().row(id));
        let names: Vec<Name> = locks.chain(sessions).chain(rows).collect();
        if names.is_empty() {
            // Nothing is asked, so nothing tells the time.
            return Ok(());
        }
        let sent = boottime();
        let mut all = Snapshot::default();
        for page in names.chunks(Limits::CONTRACT.page) {
            let snapshot = self.store().read(page).await?;
            all.now = snapshot.now;
            all.records.extend(snapshot.records);
        }
        self.take_in(loaded, wanted, &all)?;
        loaded.sent = sent;
        Ok(())
    }

    /// Takes in the records that a conflict brought: those that were expected (`None`: all), as they are now.
    pub(crate) fn take_conflict(
        &self,
        loaded: &mut Loaded,
        expected: Option<&BTreeSet<Name>>,
        snapshot: &Snapshot,
    ) -> Result<(), Denied> {
        let mut seen = loaded.everything();
        let all = seen.len();
        if let Some(expected) = expected {
            seen.locks.retain(|key| expected.contains(&self.space().lock(key)));
            seen.sessions.retain(|id| expected.contains(&self.space().session(id)));
            seen.rows.retain(|id| expected.contains(&self.space().row(id)));
        }
        if seen.len() == all {
            loaded.guessed = false;
        }
        self.take_in(loaded, &seen, snapshot)
    }

    pub(crate) fn take_in(
        &self,
        loaded: &mut Loaded,
        wanted: &Missing,
        snapshot: &Snapshot,
    ) -> Result<(), Denied> {
        self.clock().told(snapshot.now);
        loaded.view.now = snapshot.now;
        for key in &wanted.locks {
            let name = self.space().lock(key);
            let record = snapshot.records.get(&name);
            let lock = record.map(|r| Ok(decode::<Lock>(&name, &r.value)?.stamped(r.stamp)));
            loaded.view.locks.insert(key.clone(), seen(record, lock)?);
        }
        let notices_death = self.store().info().notices_death;
        for id in &wanted.sessions {
            let name = self.space().session(id);
            let record = snapshot.records.get(&name);
            let session = record.map(|r| decode::<Record>(&name, &r.value)).transpose()?;
            if notices_death && session.is_some() && self.store().presence().is_gone(id.as_str()) {
                loaded.view.gone.insert(id.clone());
            }
            loaded.view.sessions.insert(id.clone(), seen(record, session.map(Ok))?);
        }
        for id in &wanted.rows {
            let name = self.space().row(id);
            let record = snapshot.records.get(&name);
            let row = record.map(|r| rows::decode(id, &name, &r.value));
            loaded.view.rows.insert(id.clone(), seen(record, row)?);
        }
        Ok(())
    }
}

/// A record as it was read and decoded.
fn seen<T>(record: Option<&Stored>, decoded: Option<Result<T, Error>>) -> Result<Seen<T>, Error> {
    let version = record.map_or(0, |record| record.version);
    Ok(Seen { record: decoded.transpose()?.map(Arc::new), version })
}

pub(crate) fn decode<T: serde::de::DeserializeOwned>(name: &Name, value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|error| {
        Error::new(Kind::Corrupt, format!("read the record {name}"))
            .because(error)
            .hint("something else wrote it, or a newer Bellwether did; look at it before deleting it")
    })
}
