//! What a commit asks for, and what it answers.

use std::time::Duration;

use crate::record::{Name, Revision, Snapshot, Timestamp, Version};

/// How far [`Txn::at`] may lie behind the store's clock when the commit reaches it.
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

/// What a put does to a record's stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// The stamp becomes this commit's revision.
    New,
    /// The stamp stays; a created record gets this commit's revision all the same.
    Keep,
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
