//! What a decision asks of the store: what it has seen is expected, what it has changed is written.
//!
//! On the way to a commit the name of a record is made here, once. Sending it is left to `transact`.

use bell_core::key::Key;
use bell_core::lock::{Holder, Lock};
use bell_core::view::{Changed, Changes, InOrder, Records, Seen, View};
use bell_store::{Expect, Name, Stamp, Txn, Write};

use crate::denied::Denied;
use crate::space::Space;
use crate::transact::encode;
use crate::work::rows;

/// Expectations and writes that nearly every commit has room for: a lock, its session, and that the one is held by the other.
const USUAL: usize = 3;

/// A transaction of everything that a decision saw and changed: what it changed comes first in the expectations.
pub(crate) fn txn(space: &Space, view: &View, changes: &Changes) -> Result<Txn, Denied> {
    let mut demand = Demand { expect: Vec::with_capacity(USUAL), writes: Vec::with_capacity(USUAL) };
    for (key, lock) in &changes.locks {
        let (before, after) = (view.locks.get(key).and_then(Seen::get), lock.as_deref());
        demand.note_holders(space, key, before, after);
        demand.change(space.lock(key), view.locks.get(key), lock_as_written(after)?);
    }
    for (id, session) in &changes.sessions {
        let write = as_written(session.as_deref(), encode)?;
        demand.change(space.session(id), view.sessions.get(id), write);
    }
    let mut seen = InOrder::of(&view.rows);
    for (id, row) in &changes.rows {
        let write = as_written(row.as_deref(), rows::encode)?;
        demand.change(space.row(id), seen.get(id), write);
    }
    demand.expect_others(&view.locks, &changes.locks, |key| space.lock(key));
    demand.expect_others(&view.sessions, &changes.sessions, |id| space.session(id));
    demand.expect_others(&view.rows, &changes.rows, |id| space.row(id));
    Ok(Txn { at: Some(view.now), expect: demand.expect, writes: demand.writes })
}

struct Demand {
    expect: Vec<(Name, Expect)>,
    writes: Vec<(Name, Write)>,
}

impl Demand {
    /// Writes a record, and expects it as it was seen, if it was.
    fn change<T>(&mut self, name: Name, seen: Option<&Seen<T>>, write: Write) {
        if let Some(seen) = seen {
            self.expect.push((name.clone(), Expect::seen(seen.version)));
        }
        self.writes.push((name, write));
    }

    /// Expects what was only looked at.
    fn expect_others<Id: Ord, T>(
        &mut self,
        seen: &Records<Id, T>,
        changed: &Changed<Id, T>,
        name: impl Fn(&Id) -> Name,
    ) {
        let others = seen.iter().filter(|(id, _)| !changed.contains_key(id));
        self.expect.extend(others.map(|(id, seen)| (name(id), Expect::seen(seen.version))));
    }

    /// Writes who holds a key now and did not before, and who does no more.
    fn note_holders(&mut self, space: &Space, key: &Key, before: Option<&Lock>, after: Option<&Lock>) {
        let (before, after) = differing(holders(before), holders(after));
        for old in before.iter().filter(|old| !is_among(old, after)) {
            self.writes.push((space.held(&old.session, key), Write::Delete));
        }
        for new in after.iter().filter(|new| !is_among(new, before)) {
            self.writes.push((space.held(&new.session, key), Write::Put(Vec::new(), Stamp::Keep)));
        }
    }
}

fn holders(lock: Option<&Lock>) -> &[Holder] {
    lock.map(|lock| lock.holders.as_slice()).unwrap_or_default()
}

/// Without those at both ends who are the same: of many who share a key, one comes or goes at a time.
fn differing<'h>(mut before: &'h [Holder], mut after: &'h [Holder]) -> (&'h [Holder], &'h [Holder]) {
    while let ([old, before_rest @ ..], [new, after_rest @ ..]) = (before, after)
        && old.session == new.session
    {
        (before, after) = (before_rest, after_rest);
    }
    while let ([before_rest @ .., old], [after_rest @ .., new]) = (before, after)
        && old.session == new.session
    {
        (before, after) = (before_rest, after_rest);
    }
    (before, after)
}

fn is_among(holder: &Holder, others: &[Holder]) -> bool {
    others.iter().any(|other| other.session == holder.session)
}

fn lock_as_written(lock: Option<&Lock>) -> Result<Write, Denied> {
    let Some(lock) = lock else { return Ok(Write::Delete) };
    let stamp = if lock.has_new_grant() { Stamp::New } else { Stamp::Keep };
    Ok(Write::Put(encode(lock)?, stamp))
}

fn as_written<T>(
    record: Option<&T>,
    encode: impl Fn(&T) -> Result<Vec<u8>, Denied>,
) -> Result<Write, Denied> {
    record.map_or(Ok(Write::Delete), |record| Ok(Write::Put(encode(record)?, Stamp::Keep)))
}
