//! Records and the store's state, put together from etcd's keys.

use std::collections::BTreeMap;

use bell_store::{Error, Kind, Name, Record, Result, Revision};
use etcd_client::{GetOptions, KeyValue, TxnOp, TxnOpResponse, TxnResponse};

use crate::keys::{Keys, Part, Range};
use crate::line::{Line, Reached};

/// What the store knows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) line: Line,
    /// The revision that wrote the line.
    pub(crate) line_revision: i64,
    /// The time of the last commit.
    pub(crate) head: Reached,
    /// The revision of the last commit.
    pub(crate) head_revision: i64,
}

impl Meta {
    /// The operation that reads it.
    pub(crate) fn get(keys: &Keys, revision: i64) -> TxnOp {
        get(keys.meta(), GetOptions::new().with_revision(revision))
    }

    /// From the answer to that operation.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if somebody else has written or removed it.
    pub(crate) fn of(keys: &Keys, found: &[KeyValue]) -> Result<Self> {
        let find = |key: Vec<u8>| found.iter().find(move |found| found.key() == key);
        let line =
            find(keys.line()).and_then(|found| Some((Line::decode(found.value())?, found.mod_revision())));
        let head =
            find(keys.head()).and_then(|found| Some((Reached::decode(found.value())?, found.mod_revision())));
        let ((line, line_revision), (head, head_revision)) = line.zip(head).ok_or_else(damaged)?;
        Ok(Self { line, line_revision, head, head_revision })
    }

    pub(crate) fn revision(&self) -> Revision {
        unsigned(self.head_revision)
    }
}

/// An operation that reads a range.
pub(crate) fn get((start, end): Range, options: GetOptions) -> TxnOp {
    TxnOp::get(start, Some(options.with_range(end)))
}

/// What each reading operation of a transaction found, in order.
pub(crate) fn found(answer: &TxnResponse) -> Vec<Vec<KeyValue>> {
    let kvs = |answer| match answer {
        TxnOpResponse::Get(mut get) => Some(get.take_kvs()),
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
    };
    answer.op_responses().into_iter().filter_map(kvs).collect()
}

/// Records of which some keys have been seen.
#[derive(Default)]
pub(crate) struct Gathered(BTreeMap<Name, Parts>);

#[derive(Default)]
struct Parts {
    value: Option<KeyValue>,
    stamped: Option<i64>,
}

impl Gathered {
    pub(crate) fn add(&mut self, keys: &Keys, found: impl IntoIterator<Item = KeyValue>) {
        for found in found {
            let Some((name, part)) = keys.name(found.key()) else { continue };
            let parts = self.0.entry(name).or_default();
            match part {
                Part::Value => parts.value = Some(found),
                Part::Stamp => parts.stamped = Some(found.mod_revision()),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first `limit` of them.
    pub(crate) fn records(self, limit: usize) -> BTreeMap<Name, Record> {
        let record = |(name, parts): (Name, Parts)| Some((name, parts.record()?));
        self.0.into_iter().filter_map(record).take(limit).collect()
    }
}

impl Parts {
    fn record(self) -> Option<Record> {
        let value = self.value?;
        // A record that was created and never stamped again has the stamp of its creation.
        let stamp = value.create_revision().max(self.stamped.unwrap_or(0));
        let version = unsigned(value.mod_revision());
        Some(Record { version, stamp: unsigned(stamp), value: value.into_key_value().1 })
    }
}

pub(crate) fn unsigned(revision: i64) -> Revision {
    u64::try_from(revision).unwrap_or(0)
}

fn damaged() -> Error {
    Error::new(Kind::Corrupt, "read the state of the store: somebody else has written or removed it")
        .hint("Stop every process that uses it; restore a backup of etcd, or name another prefix.")
}
