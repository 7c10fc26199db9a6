//! A commit as one transaction of etcd.
//!
//! Each expectation is a comparison, each write one operation, and one more puts the head. A record that may
//! exist already is stamped anew by a pair of puts, nested so that they count as one. On a conflict the
//! same transaction reads the expected records. The limits of [`bell_store::info::Limits`] are chosen so that
//! this always fits the 128 operations that etcd takes: nested operations count on top of those around them.

use std::collections::HashSet;

use bell_store::{Committed, Expect, Name, Outcome, Snapshot, Stamp, Txn, Write};
use bell_store::{Result, info::Limits};
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, Txn as EtcdTxn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use crate::answers::{Gathered, Meta, found, get, unsigned};
use crate::keys::Keys;
use crate::line::{Reached, Reading};

/// What etcd takes unless told otherwise (`--max-txn-ops`).
const MAX_OPERATIONS: usize = 128;
const PAIR: usize = 2;
const _: () = assert!(Limits::CONTRACT.txn_ops + 1 + PAIR <= MAX_OPERATIONS);

/// The transaction that carries out `txn` and leaves `now` as the time of the last commit.
pub(crate) fn plan(keys: &Keys, txn: &Txn, now: Reached) -> EtcdTxn {
    let compares: Vec<_> = txn.expect.iter().map(|(name, expect)| compare(keys, name, *expect)).collect();
    let absent: HashSet<&Name> =
        txn.expect.iter().filter(|(_, expect)| *expect == Expect::Absent).map(|(name, _)| name).collect();
    let mut operations: Vec<_> = txn
        .writes
        .iter()
        .map(|(name, write)| operation(keys, name.as_str(), write, absent.contains(name)))
        .collect();
    operations.push(if txn.writes.is_empty() {
        Meta::get(keys, 0)
    } else {
        // The time that it replaces comes back: whoever is behind notices.
        TxnOp::put(keys.head(), now.encode(), Some(PutOptions::new().with_prev_key()))
    });
    let reads = txn.expect.iter().map(|(name, _)| get(keys.record(name.as_str()), GetOptions::new()));
    let otherwise: Vec<_> = std::iter::once(Meta::get(keys, 0)).chain(reads).collect();
    EtcdTxn::new().when(compares).and_then(operations).or_else(otherwise)
}

fn compare(keys: &Keys, name: &Name, expect: Expect) -> Compare {
    let key = keys.value(name.as_str());
    match expect {
        Expect::Absent => Compare::version(key, CompareOp::Equal, 0),
        // No record has a revision that etcd can't have.
        Expect::At(version) => {
            Compare::mod_revision(key, CompareOp::Equal, i64::try_from(version).unwrap_or(i64::MAX))
        }
    }
}

fn operation(keys: &Keys, name: &str, write: &Write, is_created: bool) -> TxnOp {
    match write {
        Write::Put(value, Stamp::New) if !is_created => TxnOp::txn(EtcdTxn::new().and_then([
            TxnOp::put(keys.value(name), value.as_slice(), None),
            TxnOp::put(keys.stamp(name), "", None),
        ])),
        // Created, it has the stamp of its creation.
        Write::Put(value, Stamp::New | Stamp::Keep) => TxnOp::put(keys.value(name), value.as_slice(), None),
        Write::Delete => {
            let (start, end) = keys.record(name);
            TxnOp::delete(start, Some(DeleteOptions::new().with_range(end)))
        }
    }
}

/// What came of it. The meta is there if the transaction has read it.
///
/// # Errors
/// [`bell_store::Kind::Corrupt`] if the store's state is not readable.
pub(crate) fn outcome(keys: &Keys, txn: &Txn, answer: &TxnResponse) -> Result<(Ended, Option<Meta>)> {
    if answer.succeeded() && !txn.writes.is_empty() {
        let revision = answer.header().map_or(0, |header| unsigned(header.revision()));
        return Ok((Ended::Committed(revision), None));
    }
    let mut found = found(answer).into_iter();
    let meta = Meta::of(keys, &found.next().unwrap_or_default())?;
    if answer.succeeded() {
        return Ok((Ended::Committed(meta.revision()), Some(meta)));
    }
    let mut gathered = Gathered::default();
    found.for_each(|found| gathered.add(keys, found));
    Ok((Ended::Conflict(meta.revision(), gathered), Some(meta)))
}

/// The time of the commit before this one, and its revision.
pub(crate) fn replaced_head(answer: &TxnResponse) -> Option<(Reached, i64)> {
    let TxnOpResponse::Put(mut put) = answer.op_responses().pop()? else { return None };
    let head = put.take_prev_key()?;
    Some((Reached::decode(head.value())?, head.mod_revision()))
}

/// An outcome that has no time yet.
pub(crate) enum Ended {
    Committed(u64),
    Conflict(u64, Gathered),
}

impl Ended {
    pub(crate) fn at(self, reading: Reading) -> Outcome {
        match self {
            Self::Committed(revision) => Outcome::Committed(Committed { revision, now: reading.now }),
            Self::Conflict(revision, gathered) => Outcome::Conflict(Snapshot {
                revision,
                now: reading.now,
                records: gathered.records(usize::MAX),
                more: false,
            }),
        }
    }
}
