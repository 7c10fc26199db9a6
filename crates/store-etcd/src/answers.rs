//! Records and the store's state, put together from etcd's keys.

use std::collections::BTreeMap;

use bell_store::{Error, Kind, Name, Record, Result, Revision};
use etcd_client::{GetOptions, KeyValue, TxnOp, TxnOpResponse, TxnResponse};

use crate::keys::{Keys, Part, Range};
use crate::line::{Line, Reached};
use crate::revision::{Place, revision};

/// What the last transaction that committed something left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// When it was sent.
    pub(crate) reached: Reached,
    /// The place of its last commit.
    pub(crate) last: Place,
}

impl Head {
    pub(crate) fn encode(self) -> String {
        format!("{} {}", self.reached.encode(), self.last)
    }

    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let (reached, last) = str::from_utf8(text).ok()?.rsplit_once(' ')?;
        Some(Self { reached: Reached::decode(reached.as_bytes())?, last: last.parse().ok()? })
    }
}

/// What the store knows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) line: Line,
    /// etcd's revision that wrote the line.
    pub(crate) line_revision: i64,
    pub(crate) head: Head,
    /// etcd's revision that wrote the head.
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
            find(keys.head()).and_then(|found| Some((Head::decode(found.value())?, found.mod_revision())));
        let ((line, line_revision), (head, head_revision)) = line.zip(head).ok_or_else(damaged)?;
        Ok(Self { line, line_revision, head, head_revision })
    }

    /// The revision of the last commit.
    pub(crate) fn revision(&self) -> Revision {
        revision(self.head_revision, self.head.last)
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

/// A value as it is stored: the place of the commit that put it goes in front.
pub(crate) fn placed(place: Place, value: &[u8]) -> Vec<u8> {
    [&[place], value].concat()
}

/// Records of which some keys have been seen.
#[derive(Default)]
pub(crate) struct Gathered(BTreeMap<Name, Parts>);

#[derive(Default)]
struct Parts {
    value: Option<KeyValue>,
    stamp: Option<KeyValue>,
}

impl Gathered {
    pub(crate) fn add(&mut self, keys: &Keys, found: impl IntoIterator<Item = KeyValue>) {
        for found in found {
            let Some((name, part)) = keys.name(found.key()) else { continue };
            let parts = self.0.entry(name).or_default();
            match part {
                Part::Value => parts.value = Some(found),
                Part::Stamp => parts.stamp = Some(found),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first `limit` of them.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if somebody else has written one of them.
    pub(crate) fn records(self, limit: usize) -> Result<BTreeMap<Name, Record>> {
        let whole = |(name, Parts { value, stamp })| Some((name, value?, stamp));
        let record = |(name, value, stamp): (Name, _, _)| match record(value, stamp) {
            Some(record) => Ok((name, record)),
            None => Err(foreign(&name)),
        };
        self.0.into_iter().filter_map(whole).take(limit).map(record).collect()
    }
}

fn record(value: KeyValue, stamp: Option<KeyValue>) -> Option<Record> {
    let version = revision(value.mod_revision(), *value.value().first()?);
    let stamp = match stamp {
        Some(stamp) => revision(stamp.mod_revision(), *stamp.value().first()?),
        // Created by the first commit of a transaction, and never stamped again.
        None => revision(value.create_revision(), 0),
    };
    let mut value = value.into_key_value().1;
    value.remove(0);
    Some(Record { version, stamp, value })
}

fn damaged() -> Error {
    corrupt("read the state of the store: somebody else has written or removed it".to_owned())
}

fn foreign(name: &Name) -> Error {
    corrupt(format!("read the record {name}: somebody else has written it"))
}

fn corrupt(message: String) -> Error {
    Error::new(Kind::Corrupt, message)
        .hint("Stop every process that uses it; restore a backup of etcd, or name another prefix.")
}
