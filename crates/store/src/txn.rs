//! What a commit asks for, and what it answers.

use std::time::Duration;

use crate::record::{Name, Record, Revision, Snapshot, Timestamp, Version};

/// How far [`Txn::at`] may lie behind the store's clock when the commit reaches the store.
///
/// A holder counts its lease from the moment it sent the request and stops 500 ms before the store
/// does, at the least; a commit decided on an older time could grant a lease that ends before its
/// holder thinks so.
pub const MAX_LAG: Duration = Duration::from_millis(400);

/// All or nothing: writes that apply only if the world still looks as expected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Txn {
    /// The moment on the store's clock that the writes were decided for. The commit conflicts if this
    /// is ahead of the store's clock, or behind it by more than [`MAX_LAG`]. `None`: time played no part.
    pub at: Option<Timestamp>,
    /// What must hold.
    pub expect: Vec<(Name, Expect)>,
    /// What to write then. No name twice.
    pub writes: Vec<(Name, Write)>,
}

impl Txn {
    /// Whether the time this was decided for is still good, judged at `called`: the store's clock when
    /// it was asked to commit.
    ///
    /// A store with a queue takes `called` before queueing. Waiting behind other commits makes nobody's
    /// lease shorter than its holder thinks, so a slow disk is no reason to conflict.
    pub fn time_holds(&self, called: Timestamp) -> bool {
        self.at.is_none_or(|at| at <= called && called.since(at) <= MAX_LAG)
    }

    /// Whether every expectation holds, where `version` knows the current version of a record (zero: no
    /// record).
    pub fn expectations_hold(&self, mut version: impl FnMut(&Name) -> Version) -> bool {
        self.expect.iter().all(|(name, expect)| expect.holds(version(name)))
    }

    /// The names of the records it writes.
    pub fn written(&self) -> impl Iterator<Item = &Name> {
        self.writes.iter().map(|(name, _)| name)
    }
}

/// What a record must look like for a commit to go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// There is no such record.
    Absent,
    /// It exists and was last written by this commit.
    At(Version),
}

impl Expect {
    /// The expectation that a record is still as it was seen (zero: not there).
    pub fn seen(version: Version) -> Self {
        if version == 0 { Self::Absent } else { Self::At(version) }
    }

    /// Whether a record of this version (zero: no record) is what was expected.
    pub fn holds(self, version: Version) -> bool {
        match self {
            Self::Absent => version == 0,
            Self::At(expected) => version == expected,
        }
    }
}

/// What happens to a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// It gets this value; created if absent.
    Put(Vec<u8>, Stamp),
    /// It is gone; no effect if absent.
    Delete,
}

impl Write {
    /// The record that the commit of this revision leaves behind; `stamp` is that of the record it finds.
    pub fn leaves(self, stamp: Option<Revision>, revision: Revision) -> Option<Record> {
        match self {
            Self::Put(value, rule) => {
                Some(Record { value, version: revision, stamp: rule.after(stamp, revision) })
            }
            Self::Delete => None,
        }
    }
}

/// What a put does to a record's stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// The stamp becomes this commit's revision.
    New,
    /// The stamp stays; a created record gets this commit's revision all the same.
    Keep,
}

impl Stamp {
    /// The stamp after a put by the commit of this revision, on a record with that stamp, or on none.
    pub fn after(self, stamp: Option<Revision>, revision: Revision) -> Revision {
        match self {
            Self::New => revision,
            Self::Keep => stamp.unwrap_or(revision),
        }
    }
}

/// What came of a commit that reached the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything was written.
    Committed(Committed),
    /// Nothing was written. The snapshot has the expected records as they are, so that the next
    /// decision needs no read.
    Conflict(Snapshot),
}

/// Where in the store's order a commit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The commit's own revision. A transaction that writes nothing only checks: it takes no revision
    /// and reports the last one.
    pub revision: Revision,
    /// The store's clock at the commit.
    pub now: Timestamp,
}

/// What to wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Until any of these records is at another version than the one seen (zero: absent).
    Names(Vec<(Name, Version)>),
    /// Until a commit later than this revision has touched a record whose name starts so.
    Prefix(String, Revision),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(10_000);

    fn decided_at(at: Timestamp) -> Txn {
        Txn { at: Some(at), ..Txn::default() }
    }

    #[test]
    fn a_transaction_without_a_time_holds_at_any_time() {
        assert!(Txn::default().time_holds(NOW));
    }

    #[test]
    fn a_time_holds_for_as_long_as_the_allowed_lag() {
        assert!(decided_at(NOW).time_holds(NOW));
        assert!(decided_at(NOW - MAX_LAG).time_holds(NOW));
        assert!(!decided_at(NOW - MAX_LAG - Duration::from_millis(1)).time_holds(NOW));
    }

    #[test]
    fn a_time_ahead_of_the_stores_clock_does_not_hold() {
        assert!(!decided_at(NOW + Duration::from_millis(1)).time_holds(NOW));
    }

    #[test]
    fn a_kept_stamp_is_the_old_one_and_that_of_a_created_record_is_new() {
        assert_eq!(Stamp::Keep.after(Some(3), 7), 3);
        assert_eq!(Stamp::Keep.after(None, 7), 7);
        assert_eq!(Stamp::New.after(Some(3), 7), 7);
    }

    #[test]
    fn a_deletion_leaves_nothing() {
        assert_eq!(Write::Delete.leaves(Some(3), 7), None);
    }
}
