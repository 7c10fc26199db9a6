//! Transactions that waited together, in the form that the server's procedure takes them, and its answer.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bell_store::{Committed, Expect, Name, Outcome, Record, Snapshot, Stamp, Timestamp, Txn, Write};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::clock::Told;
use crate::fault::Fault;
use crate::records::{column, name, signed, unsigned};

/// What the procedure takes for each write.
const DELETE: i32 = 0;
const PUT_NEW_STAMP: i32 = 1;
const PUT_KEEPING_STAMP: i32 = 2;

/// A transaction with how long it has waited to be sent.
pub(crate) type Waited<'a> = (&'a Txn, Duration);

/// The arguments that say what to commit. Transactions are counted from one, in the order of their waves.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    /// The place in the caller's list of each transaction.
    places: Vec<usize>,
    at_ms: Vec<Option<i64>>,
    waited_ms: Vec<i64>,
    has_writes: Vec<bool>,
    wave_ends: Vec<i32>,
    expect_txn: Vec<i32>,
    expect_name: Vec<&'a [u8]>,
    expect_version: Vec<i64>,
    write_txn: Vec<i32>,
    write_name: Vec<&'a [u8]>,
    write_value: Vec<Option<&'a [u8]>>,
    write_kind: Vec<i32>,
}

impl<'a> Batch<'a> {
    pub(crate) fn of(txns: &[Waited<'a>]) -> Self {
        let waves = waves(txns.iter().map(|(txn, _)| *txn));
        let mut places: Vec<usize> = (0..txns.len()).collect();
        places.sort_by_key(|place| waves[*place]);
        let mut batch = Self { places: places.clone(), ..Self::default() };
        for (before, place) in places.iter().enumerate() {
            batch.add(txns[*place]);
            let wave_goes_on = places.get(before + 1).is_some_and(|next| waves[*next] == waves[*place]);
            if !wave_goes_on {
                batch.wave_ends.push(count(before + 1));
            }
        }
        batch
    }

    fn add(&mut self, (txn, waited): Waited<'a>) {
        self.at_ms.push(txn.at.map(|at| signed(at.as_ms())));
        // Time spent here makes nobody's lease shorter than its holder thinks.
        self.waited_ms.push(i64::try_from(waited.as_millis()).unwrap_or(i64::MAX));
        self.has_writes.push(!txn.writes.is_empty());
        let number = count(self.at_ms.len());
        for (name, expect) in &txn.expect {
            self.expect_txn.push(number);
            self.expect_name.push(name.as_str().as_bytes());
            self.expect_version.push(match expect {
                Expect::Absent => 0,
                Expect::At(version) => signed(*version),
            });
        }
        for (name, write) in &txn.writes {
            let (value, kind) = match write {
                Write::Put(value, Stamp::New) => (Some(value.as_slice()), PUT_NEW_STAMP),
                Write::Put(value, Stamp::Keep) => (Some(value.as_slice()), PUT_KEEPING_STAMP),
                Write::Delete => (None, DELETE),
            };
            self.write_txn.push(number);
            self.write_name.push(name.as_str().as_bytes());
            self.write_value.push(value);
            self.write_kind.push(kind);
        }
    }

    /// The fifth to the last argument of the procedure.
    pub(crate) fn arguments(&self) -> [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 11] {
        [
            (&self.at_ms, Type::INT8_ARRAY),
            (&self.waited_ms, Type::INT8_ARRAY),
            (&self.has_writes, Type::BOOL_ARRAY),
            (&self.wave_ends, Type::INT4_ARRAY),
            (&self.expect_txn, Type::INT4_ARRAY),
            (&self.expect_name, Type::BYTEA_ARRAY),
            (&self.expect_version, Type::INT8_ARRAY),
            (&self.write_txn, Type::INT4_ARRAY),
            (&self.write_name, Type::BYTEA_ARRAY),
            (&self.write_value, Type::BYTEA_ARRAY),
            (&self.write_kind, Type::INT4_ARRAY),
        ]
    }

    /// What came of each transaction, in the caller's order, at the time that `now` stands for.
    pub(crate) fn outcomes(&self, row: &Row, now: Timestamp) -> Result<Vec<Outcome>, Fault> {
        let (done, revisions): (Vec<bool>, Vec<i64>) = (column(row, 2)?, column(row, 3)?);
        if done.len() != self.places.len() || revisions.len() != done.len() {
            return Err(Fault::nonsense("the commit was answered in part"));
        }
        let mut found = found(row)?;
        let mut outcomes: Vec<(usize, Outcome)> = Vec::with_capacity(done.len());
        for (before, place) in self.places.iter().enumerate() {
            let revision = unsigned(revisions[before]);
            let outcome = if done[before] {
                Outcome::Committed(Committed { revision, now })
            } else {
                let records = found.remove(&count(before + 1)).unwrap_or_default();
                Outcome::Conflict(Snapshot { revision, now, records, more: false })
            };
            outcomes.push((*place, outcome));
        }
        outcomes.sort_by_key(|(place, _)| *place);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }
}

/// The time in the procedure's answer.
pub(crate) fn told(row: &Row) -> Result<Told, Fault> {
    Ok(Told { now_ms: column(row, 0)?, offset_ms: column(row, 1)? })
}

fn found(row: &Row) -> Result<HashMap<i32, BTreeMap<Name, Record>>, Fault> {
    let (txns, names): (Vec<i32>, Vec<&[u8]>) = (column(row, 4)?, column(row, 5)?);
    let values: Vec<&[u8]> = column(row, 6)?;
    let (versions, stamps): (Vec<i64>, Vec<i64>) = (column(row, 7)?, column(row, 8)?);
    let mut found: HashMap<i32, BTreeMap<Name, Record>> = HashMap::new();
    let numbers = versions.into_iter().zip(stamps);
    for (((txn, bytes), value), (version, stamp)) in txns.into_iter().zip(names).zip(values).zip(numbers) {
        let record = Record { value: value.to_vec(), version: unsigned(version), stamp: unsigned(stamp) };
        found.entry(txn).or_default().insert(name(bytes)?, record);
    }
    Ok(found)
}

/// Which wave each transaction goes with: the first after all earlier ones that write what it touches, or
/// touch what it writes. Those of one wave can be judged together, as if one after the other.
fn waves<'a>(txns: impl Iterator<Item = &'a Txn>) -> Vec<usize> {
    let mut written: HashMap<&Name, usize> = HashMap::new();
    let mut touched: HashMap<&Name, usize> = HashMap::new();
    txns.map(|txn| {
        let expected = || txn.expect.iter().map(|(name, _)| name);
        let after_writers = expected().filter_map(|name| written.get(name));
        let after_all = txn.written().filter_map(|name| touched.get(name));
        let wave = after_writers.chain(after_all).map(|wave| wave + 1).max().unwrap_or(0);
        for name in expected().chain(txn.written()) {
            let latest = touched.entry(name).or_default();
            *latest = wave.max(*latest);
        }
        written.extend(txn.written().map(|name| (name, wave)));
        wave
    })
    .collect()
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(expect: &[&str], write: &[&str]) -> Txn {
        Txn {
            at: None,
            expect: expect.iter().map(|name| (Name::from(*name), Expect::Absent)).collect(),
            writes: write.iter().map(|name| (Name::from(*name), Write::Delete)).collect(),
        }
    }

    #[test]
    fn transactions_that_share_nothing_go_together() {
        let txns = [txn(&["a"], &["a"]), txn(&["b"], &["b", "c"]), txn(&[], &["d"])];
        assert_eq!(waves(txns.iter()), [0, 0, 0]);
    }

    #[test]
    fn those_that_only_look_at_the_same_record_go_together() {
        assert_eq!(waves([txn(&["a"], &["b"]), txn(&["a"], &["c"])].iter()), [0, 0]);
    }

    #[test]
    fn whoever_touches_what_another_writes_goes_after_it() {
        let txns = [txn(&[], &["a"]), txn(&["a"], &["b"]), txn(&["b"], &[]), txn(&[], &["a"])];
        assert_eq!(waves(txns.iter()), [0, 1, 2, 2]);
    }

    #[test]
    fn whoever_writes_what_another_looked_at_goes_after_it() {
        assert_eq!(waves([txn(&["a"], &[]), txn(&[], &["a"])].iter()), [0, 1]);
    }

    #[test]
    fn arguments_are_in_the_order_of_the_waves() {
        let txns = [txn(&[], &["a"]), txn(&[], &["a"]), txn(&[], &["b"])];
        let batch = Batch::of(&txns.iter().map(|txn| (txn, Duration::ZERO)).collect::<Vec<_>>());
        assert_eq!(batch.places, [0, 2, 1]);
        assert_eq!(batch.wave_ends, [2, 3]);
        assert_eq!(batch.write_name, [b"a", b"b", b"a"]);
        assert_eq!(batch.write_txn, [1, 2, 3]);
    }
}
