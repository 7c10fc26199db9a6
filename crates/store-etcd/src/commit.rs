//! Commits as one transaction of etcd.
//!
//! Each expectation is a comparison, each write one operation, and one more puts the head. On a conflict the
//! same transaction reads the expected records, unless it was hoped that there is none: what to read goes through
//! etcd's log, to disk and to every member, with each transaction. Commits that go together are nested, each with
//! comparisons of its own, so one that conflicts is in nobody's way. etcd compares everything before it writes anything;
//! who goes together therefore touches nothing that another of them writes (see [`crate::together`]).
//!
//! What a record is stamped with is told by etcd itself, if the first commit of a transaction has created it; all
//! others write it down in a key beside the record. Such pairs of puts are nested, so that they count as one.
//!
//! The limits of [`bell_store::info::Limits`] are chosen so that a commit alone always fits the 128 operations
//! that etcd takes: nested operations count on top of those around them.

use std::collections::HashMap;

use bell_store::{Committed, Expect, Name, Outcome, Snapshot, Stamp, Txn, Write};
use bell_store::{Result, info::Limits};
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, Txn as EtcdTxn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use crate::answers::{Gathered, Head, Meta, found, get, placed};
use crate::keys::Keys;
use crate::line::{Reached, Reading};
use crate::revision::{PLACES, Place, revision, transaction};
use crate::together;

/// What etcd takes unless told otherwise (`--max-txn-ops`).
const MAX_OPERATIONS: usize = 128;
const HEAD: usize = 1;
const PAIR: usize = 2;
const _: () = assert!(Limits::CONTRACT.txn_ops + HEAD + PAIR <= MAX_OPERATIONS);
const _: () = assert!(PLACES + HEAD + together::MAX_OPERATIONS + HEAD + PAIR <= MAX_OPERATIONS);

/// The transaction that carries these out, each by itself, and leaves `now` as the time of the last commit. All
/// of them write something, and there are no more than [`PLACES`].
pub(crate) fn plan(keys: &Keys, txns: &[&Txn], now: Reached) -> EtcdTxn {
    let head = head(keys, now, place(txns.len().saturating_sub(1)));
    if let [txn] = txns {
        return guarded(keys, txn, 0, Some(head)).or_else(expected(keys, txn));
    }
    let nested = |(index, txn): (usize, &&Txn)| {
        TxnOp::txn(guarded(keys, txn, place(index), None).or_else(expected(keys, txn)))
    };
    let operations: Vec<_> = txns.iter().enumerate().map(nested).chain([head]).collect();
    EtcdTxn::new().and_then(operations)
}

/// The transaction that carries out this one, in the hope that it does not conflict: if it does, that is all the
/// answer tells, and nothing has happened.
pub(crate) fn hope(keys: &Keys, txn: &Txn, now: Reached) -> EtcdTxn {
    guarded(keys, txn, 0, Some(head(keys, now, 0)))
}

/// The transaction that only looks whether everything is as expected.
pub(crate) fn check(keys: &Keys, txn: &Txn) -> EtcdTxn {
    guarded(keys, txn, 0, Some(Meta::get(keys, 0))).or_else(expected(keys, txn))
}

/// Leaves `now` as the time of the last commit, which has this place. The time that it replaces comes back: whoever
/// is behind notices.
fn head(keys: &Keys, now: Reached, last: Place) -> TxnOp {
    let head = Head { reached: now, last }.encode();
    TxnOp::put(keys.head(), head, Some(PutOptions::new().with_prev_key()))
}

fn place(index: usize) -> Place {
    Place::try_from(index).unwrap_or(Place::MAX)
}

/// What `txn` writes, and `then`, if everything is as it expects.
fn guarded(keys: &Keys, txn: &Txn, place: Place, then: Option<TxnOp>) -> EtcdTxn {
    let compares: Vec<_> = txn.expect.iter().map(|(name, expect)| compare(keys, name, *expect)).collect();
    let expected: HashMap<&Name, Expect> = txn.expect.iter().map(|(name, expect)| (name, *expect)).collect();
    let operations = txn.writes.iter().map(|(name, write)| {
        let key = Written { keys, name: name.as_str(), expected: expected.get(name).copied(), place };
        key.operation(write)
    });
    EtcdTxn::new().when(compares).and_then(operations.chain(then).collect::<Vec<_>>())
}

/// What `txn` expects, as it is, and the state of the store.
fn expected(keys: &Keys, txn: &Txn) -> Vec<TxnOp> {
    let reads = txn.expect.iter().map(|(name, _)| get(keys.record(name.as_str()), GetOptions::new()));
    std::iter::once(Meta::get(keys, 0)).chain(reads).collect()
}

fn compare(keys: &Keys, name: &Name, expect: Expect) -> Compare {
    let key = keys.value(name.as_str());
    match expect {
        Expect::Absent => is_absent(key),
        Expect::At(version) => Compare::mod_revision(key, CompareOp::Equal, transaction(version)),
    }
}

fn is_absent(key: Vec<u8>) -> Compare {
    Compare::version(key, CompareOp::Equal, 0)
}

/// A record that is written.
struct Written<'a> {
    keys: &'a Keys,
    name: &'a str,
    expected: Option<Expect>,
    place: Place,
}

impl Written<'_> {
    fn operation(&self, write: &Write) -> TxnOp {
        match write {
            Write::Put(value, rule) => self.put(value, *rule),
            Write::Delete => {
                let (start, end) = self.keys.record(self.name);
                TxnOp::delete(start, Some(DeleteOptions::new().with_range(end)))
            }
        }
    }

    fn put(&self, value: &[u8], rule: Stamp) -> TxnOp {
        let put = || TxnOp::put(self.keys.value(self.name), placed(self.place, value), None);
        let stamp = || TxnOp::put(self.keys.stamp(self.name), [self.place], None);
        match (rule, self.expected, self.place) {
            // etcd knows when it was created; if it is there already, its stamp stays.
            (Stamp::New | Stamp::Keep, Some(Expect::Absent), 0) | (Stamp::Keep, None, 0) => put(),
            (Stamp::Keep, Some(Expect::At(_)), _) => put(),
            (Stamp::Keep, None, _) => TxnOp::txn(
                EtcdTxn::new()
                    .when([is_absent(self.keys.value(self.name))])
                    .and_then([put(), stamp()])
                    .or_else([put()]),
            ),
            (Stamp::New, _, _) | (Stamp::Keep, Some(Expect::Absent), _) => {
                TxnOp::txn(EtcdTxn::new().and_then([put(), stamp()]))
            }
        }
    }
}

/// What came of each of those that were carried out together, and the state of the store if it was read on the way.
pub(crate) fn outcomes(
    keys: &Keys,
    txns: &[&Txn],
    answer: &TxnResponse,
) -> Vec<Result<(Ended, Option<Meta>)>> {
    let etcd = answer.header().map_or(0, |header| header.revision());
    if txns.len() == 1 {
        return vec![outcome(keys, answer, revision(etcd, 0))];
    }
    let nested = |(index, answer)| match answer {
        TxnOpResponse::Txn(answer) => Some(outcome(keys, &answer, revision(etcd, place(index)))),
        TxnOpResponse::Put(_) | TxnOpResponse::Get(_) | TxnOpResponse::Delete(_) => None,
    };
    answer.op_responses().into_iter().enumerate().filter_map(nested).collect()
}

fn outcome(keys: &Keys, answer: &TxnResponse, revision: u64) -> Result<(Ended, Option<Meta>)> {
    if answer.succeeded() {
        return Ok((Ended::Committed(revision), None));
    }
    let (ended, meta) = conflict(keys, answer)?;
    Ok((ended, Some(meta)))
}

/// What came of a check.
///
/// # Errors
/// [`bell_store::Kind::Corrupt`] if the store's state is not readable.
pub(crate) fn checked(keys: &Keys, answer: &TxnResponse) -> Result<(Ended, Meta)> {
    if !answer.succeeded() {
        return conflict(keys, answer);
    }
    let meta = Meta::of(keys, &found(answer).pop().unwrap_or_default())?;
    Ok((Ended::Committed(meta.revision()), meta))
}

fn conflict(keys: &Keys, answer: &TxnResponse) -> Result<(Ended, Meta)> {
    let mut found = found(answer).into_iter();
    let meta = Meta::of(keys, &found.next().unwrap_or_default())?;
    let mut gathered = Gathered::default();
    found.for_each(|found| gathered.add(keys, found));
    Ok((Ended::Conflict(meta.revision(), gathered), meta))
}

/// The time of the transaction before this one, and its revision.
pub(crate) fn replaced_head(answer: &TxnResponse) -> Option<(Head, i64)> {
    let TxnOpResponse::Put(mut put) = answer.op_responses().pop()? else { return None };
    let head = put.take_prev_key()?;
    Some((Head::decode(head.value())?, head.mod_revision()))
}

/// An outcome that has no time yet.
pub(crate) enum Ended {
    Committed(u64),
    Conflict(u64, Gathered),
}

impl Ended {
    /// # Errors
    /// [`bell_store::Kind::Corrupt`] if somebody else has written one of the records.
    pub(crate) fn at(self, reading: Reading) -> Result<Outcome> {
        let now = reading.now;
        Ok(match self {
            Self::Committed(revision) => Outcome::Committed(Committed { revision, now }),
            Self::Conflict(revision, gathered) => {
                let records = gathered.records(usize::MAX)?;
                Outcome::Conflict(Snapshot { revision, now, records, more: false })
            }
        })
    }
}
