//! What a decision has seen and what it changes.
//!
//! A decision asks a `Draft` for records. One that was not loaded yet ends the decision with
//! [`Missing`]; the caller loads it and decides again. The commit then expects every record of the view
//! at the version that was seen, so whatever a decision rests on can't have moved under it.
//!
//! Records are shared, never copied to be looked at: what is copied is a record that a decision changes.

use std::cmp::Ordering;
use std::collections::btree_map::{self, Entry};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::sync::Arc;

use crate::key::Key;
use crate::lock::Lock;
use crate::session::{Session, SessionId};
use crate::time::{Timestamp, Version};
use crate::work::row::{Row, RowId};

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// `None`: there is no record.
    pub record: Option<Arc<T>>,
    /// The commit that last wrote it; zero: there is no record.
    pub version: Version,
}

impl<T> Seen<T> {
    /// That there is no record.
    pub const ABSENT: Self = Self { record: None, version: 0 };

    /// A record of this version, or none.
    pub fn known(known: Option<(Arc<T>, Version)>) -> Self {
        known.map_or(Self::ABSENT, |(record, version)| Self { record: Some(record), version })
    }

    /// The record, if there is one.
    pub fn get(&self) -> Option<&T> {
        self.record.as_deref()
    }
}

/// Where it plays no part by which commit a record was written.
impl<T> From<Option<Arc<T>>> for Seen<T> {
    fn from(record: Option<Arc<T>>) -> Self {
        Self { record, version: 0 }
    }
}

/// Records of one kind that were looked at.
pub type Records<Id, T> = BTreeMap<Id, Seen<T>>;

/// Records of one kind as they are to be. `None`: delete the record.
pub type Changed<Id, T> = BTreeMap<Id, Option<Arc<T>>>;

/// Records that are looked for in the order of their ids: each search goes on where the one before it ended. A decision on
/// dozens of deliveries changes hundreds of records, and looking for each of them from the top takes as long as deciding.
pub struct InOrder<'a, Id, T> {
    rest: Peekable<btree_map::Iter<'a, Id, T>>,
}

impl<'a, Id: Ord, T> InOrder<'a, Id, T> {
    /// Begins before the first of these.
    pub fn of(records: &'a BTreeMap<Id, T>) -> Self {
        Self { rest: records.iter().peekable() }
    }

    /// The record of this id, which comes after all that were asked for before.
    pub fn get(&mut self, id: &Id) -> Option<&'a T> {
        while let Some((known, record)) = self.rest.peek() {
            match (*known).cmp(id) {
                Ordering::Less => _ = self.rest.next(),
                Ordering::Equal => return Some(record),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

/// Records as they were read, and the store's time.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The store's time.
    pub now: Timestamp,
    /// Locks that were looked at.
    pub locks: Records<Key, Lock>,
    /// Sessions that were looked at.
    pub sessions: Records<SessionId, Session>,
    /// Records of the work that were looked at.
    pub rows: Records<RowId, Row>,
    /// Sessions whose process is known to be dead.
    pub gone: BTreeSet<SessionId>,
}

impl View {
    /// Whether a session exists, has not run out, and is not known to be dead, as far as this has seen.
    pub fn is_alive(&self, id: &SessionId) -> bool {
        let session = self.sessions.get(id).and_then(Seen::get);
        !self.gone.contains(id) && session.is_some_and(|session| session.is_live(self.now))
    }
}

/// Records that must be loaded before a decision can be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Missing {
    /// Locks.
    pub locks: BTreeSet<Key>,
    /// Sessions.
    pub sessions: BTreeSet<SessionId>,
    /// Records of the work.
    pub rows: BTreeSet<RowId>,
}

impl Missing {
    /// How many records these are.
    pub fn len(&self) -> usize {
        self.locks.len() + self.sessions.len() + self.rows.len()
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A decision, or what it still has to see.
pub type Decided<T> = Result<T, Missing>;

/// What to store next: only what changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Locks.
    pub locks: Changed<Key, Lock>,
    /// Sessions.
    pub sessions: Changed<SessionId, Session>,
    /// Records of the work.
    pub rows: Changed<RowId, Row>,
    /// Queues that could be served further by another decision.
    pub unfinished: BTreeSet<Key>,
}

impl Changes {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.sessions.is_empty() && self.rows.is_empty()
    }
}

/// A view with changes on top of it.
pub(crate) struct Draft<'v> {
    view: &'v View,
    changes: Changes,
}

impl<'v> Draft<'v> {
    pub(crate) fn new(view: &'v View) -> Self {
        Self { view, changes: Changes::default() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.view.now
    }

    /// Makes sure that all these locks are loaded, asking for all that are not at once.
    pub(crate) fn need_locks<'k>(&self, keys: impl IntoIterator<Item = &'k Key>) -> Decided<()> {
        let missing = keys.into_iter().filter(|key| !self.view.locks.contains_key(key));
        let locks: BTreeSet<Key> = missing.cloned().collect();
        if locks.is_empty() { Ok(()) } else { Err(Missing { locks, ..Missing::default() }) }
    }

    /// Makes sure that all these sessions are loaded.
    pub(crate) fn need_sessions<'s>(&self, ids: impl IntoIterator<Item = &'s SessionId>) -> Decided<()> {
        let missing = ids.into_iter().filter(|id| !self.view.sessions.contains_key(id));
        let sessions: BTreeSet<SessionId> = missing.cloned().collect();
        if sessions.is_empty() { Ok(()) } else { Err(Missing { sessions, ..Missing::default() }) }
    }

    /// The lock as this decision has left it; empty if there is no record.
    pub(crate) fn lock(&self, key: &Key) -> Decided<&Lock> {
        const NOBODY: &Lock = &Lock { holders: Vec::new(), queue: Vec::new() };
        if let Some(changed) = self.changes.locks.get(key) {
            return Ok(changed.as_deref().unwrap_or(NOBODY));
        }
        Ok(seen_lock(self.view, key)?.get().unwrap_or(NOBODY))
    }

    /// The lock, to be changed.
    pub(crate) fn lock_mut(&mut self, key: &Key) -> Decided<&mut Lock> {
        let changed = match self.changes.locks.entry(key.clone()) {
            Entry::Occupied(changed) => changed.into_mut(),
            Entry::Vacant(unchanged) => unchanged.insert(seen_lock(self.view, key)?.record.clone()),
        };
        Ok(Arc::make_mut(changed.get_or_insert_default()))
    }

    /// Puts a lock; one that nobody holds or waits for needs no record.
    pub(crate) fn set_lock(&mut self, key: &Key, lock: Lock) {
        let lock = (!lock.is_empty()).then(|| Arc::new(lock));
        self.changes.locks.insert(key.clone(), lock);
    }

    /// The session as this decision has left it.
    pub(crate) fn session(&self, id: &SessionId) -> Decided<Option<&Session>> {
        if let Some(changed) = self.changes.sessions.get(id) {
            return Ok(changed.as_deref());
        }
        match self.view.sessions.get(id) {
            Some(seen) => Ok(seen.get()),
            None => Err(Missing { sessions: [id.clone()].into(), ..Missing::default() }),
        }
    }

    /// Makes sure that all these records of the work are loaded.
    pub(crate) fn need_rows(&self, ids: impl IntoIterator<Item = RowId>) -> Decided<()> {
        let missing = ids.into_iter().filter(|id| !self.view.rows.contains_key(id));
        let rows: BTreeSet<RowId> = missing.collect();
        if rows.is_empty() { Ok(()) } else { Err(Missing { rows, ..Missing::default() }) }
    }

    /// A record of the work as this decision has left it.
    pub(crate) fn row(&self, id: &RowId) -> Decided<Option<&Row>> {
        if let Some(changed) = self.changes.rows.get(id) {
            return Ok(changed.as_deref());
        }
        match self.view.rows.get(id) {
            Some(seen) => Ok(seen.get()),
            None => Err(Missing { rows: [id.clone()].into(), ..Missing::default() }),
        }
    }

    /// Puts a record of the work, or deletes it.
    pub(crate) fn set_row(&mut self, id: RowId, row: Option<Row>) {
        self.changes.rows.insert(id, row.map(Arc::new));
    }

    /// Adds what another decision on the same view has changed.
    pub(crate) fn absorb(&mut self, changes: Changes) {
        self.changes.locks.extend(changes.locks);
        self.changes.sessions.extend(changes.sessions);
        self.changes.rows.extend(changes.rows);
        self.changes.unfinished.extend(changes.unfinished);
    }

    /// Puts a session, or deletes it.
    pub(crate) fn set_session(&mut self, id: &SessionId, session: Option<Session>) {
        self.put_session(id, session.map(Arc::new));
    }

    /// The same with a record that others have, too.
    pub(crate) fn put_session(&mut self, id: &SessionId, session: Option<Arc<Session>>) {
        self.changes.sessions.insert(id.clone(), session);
    }

    /// Whether a session exists, has not run out, and is not known to be dead.
    pub(crate) fn is_alive(&self, id: &SessionId) -> Decided<bool> {
        if self.view.gone.contains(id) {
            return Ok(false);
        }
        Ok(self.session(id)?.is_some_and(|session| session.is_live(self.view.now)))
    }

    pub(crate) fn changed_records(&self) -> usize {
        self.changes.locks.len() + self.changes.sessions.len()
    }

    pub(crate) fn changed_rows(&self) -> usize {
        self.changes.rows.len()
    }

    pub(crate) fn leave_unfinished(&mut self, key: &Key) {
        self.changes.unfinished.insert(key.clone());
    }

    /// What is different from the view.
    pub(crate) fn into_changes(self) -> Changes {
        let mut changes = self.changes;
        for lock in changes.locks.values_mut() {
            lock.take_if(|lock| lock.is_empty());
        }
        changes.locks.retain(|key, lock| self.view.locks.get(key).is_none_or(|seen| seen.record != *lock));
        changes.sessions.retain(|id, session| {
            session.is_some() || self.view.sessions.get(id).is_none_or(|seen| seen.record.is_some())
        });
        let mut seen = InOrder::of(&self.view.rows);
        changes.rows.retain(|id, row| seen.get(id).is_none_or(|seen| seen.record != *row));
        changes
    }
}

fn seen_lock<'v>(view: &'v View, key: &Key) -> Decided<&'v Seen<Lock>> {
    view.locks.get(key).ok_or_else(|| Missing { locks: [key.clone()].into(), ..Missing::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_looked_for_in_order_is_found_as_it_would_be_from_the_top() {
        let records: BTreeMap<u32, u32> = [2, 3, 5, 8, 13].map(|id| (id, id * 10)).into();
        for step in 1..5 {
            let mut in_order = InOrder::of(&records);
            for id in (0..20).step_by(step) {
                assert_eq!(in_order.get(&id), records.get(&id), "{id} by {step}");
            }
        }
    }
}
