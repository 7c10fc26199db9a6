//! Transactions that waited together, in the form that the server's procedure takes them, and its answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bell_store::topic::{self, Topic};
use bell_store::{Committed, Expect, Name, Outcome, Record, Snapshot, Stamp, Timestamp, Txn, Write};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::clock::Told;
use crate::fault::Fault;
use crate::records::{column, name, signed, unsigned};

/// What the procedure takes for each write.
const DELETE: i32 = 0;
const PUT_NEW_STAMP: i32 = 1;
const PUT_KEEPING_STAMP: i32 = 2;

/// A transaction with how long it has waited to be sent.
pub(crate) type Waited<'a> = (&'a Txn, Duration);

/// The arguments that say what to commit.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    at_ms: Vec<Option<i64>>,
    waited_ms: Vec<i64>,
    expects: Vec<i32>,
    writes: Vec<i32>,
    expect_name: Vec<&'a [u8]>,
    expect_version: Vec<i64>,
    write_name: Vec<&'a [u8]>,
    write_value: Vec<Option<&'a [u8]>>,
    write_kind: Vec<i32>,
    topics: Vec<i64>,
}

impl<'a> Batch<'a> {
    /// Of a store in this schema.
    pub(crate) fn of(txns: &[Waited<'a>], schema: &Schema) -> Self {
        let mut batch = Self::default();
        txns.iter().for_each(|txn| batch.add(*txn));
        let topics: BTreeSet<&str> =
            txns.iter().flat_map(|(txn, _)| txn.written()).map(|name| topic::of(name.as_str())).collect();
        let written = topics.into_iter().map(|topic| Topic::One(topic.into()));
        batch.topics = written.chain([Topic::Everything]).map(|topic| schema.number_of(&topic)).collect();
        batch
    }

    fn add(&mut self, (txn, waited): Waited<'a>) {
        self.at_ms.push(txn.at.map(|at| signed(at.as_ms())));
        // Time spent here makes nobody's lease shorter than its holder thinks.
        self.waited_ms.push(i64::try_from(waited.as_millis()).unwrap_or(i64::MAX));
        self.expects.push(count(txn.expect.len()));
        self.writes.push(count(txn.writes.len()));
        for (name, expect) in &txn.expect {
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
            self.write_name.push(name.as_str().as_bytes());
            self.write_value.push(value);
            self.write_kind.push(kind);
        }
    }

    /// The fifth to the last argument of the procedure.
    pub(crate) fn arguments(&self) -> [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 10] {
        [
            (&self.at_ms, Type::INT8_ARRAY),
            (&self.waited_ms, Type::INT8_ARRAY),
            (&self.expects, Type::INT4_ARRAY),
            (&self.writes, Type::INT4_ARRAY),
            (&self.expect_name, Type::BYTEA_ARRAY),
            (&self.expect_version, Type::INT8_ARRAY),
            (&self.write_name, Type::BYTEA_ARRAY),
            (&self.write_value, Type::BYTEA_ARRAY),
            (&self.write_kind, Type::INT4_ARRAY),
            (&self.topics, Type::INT8_ARRAY),
        ]
    }

    /// What came of each transaction, at the time that `now` stands for.
    pub(crate) fn outcomes(&self, row: &Row, now: Timestamp) -> Result<Vec<Outcome>, Fault> {
        let (done, revisions): (Vec<bool>, Vec<i64>) = (column(row, 2)?, column(row, 3)?);
        if done.len() != self.at_ms.len() || revisions.len() != done.len() {
            return Err(Fault::nonsense("the commit was answered in part"));
        }
        let mut found = found(row)?;
        let outcome = |(place, (done, revision)): (usize, (bool, i64))| {
            let revision = unsigned(revision);
            if done {
                return Outcome::Committed(Committed { revision, now });
            }
            let records = found.remove(&count(place + 1)).unwrap_or_default();
            Outcome::Conflict(Snapshot { revision, now, records, more: false })
        };
        Ok(done.into_iter().zip(revisions).enumerate().map(outcome).collect())
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

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_all_transactions_stand_one_after_the_other() {
        let schema = Schema::named("bell").unwrap();
        let first = Txn {
            at: Some(Timestamp::from_ms(7)),
            expect: vec![("a/1".into(), Expect::Absent), ("b/1".into(), Expect::At(3))],
            writes: vec![("a/1".into(), Write::Put(b"v".to_vec(), Stamp::New))],
        };
        let second = Txn { writes: vec![("a/2".into(), Write::Delete)], ..Txn::default() };
        let batch = Batch::of(&[(&first, Duration::ZERO), (&second, Duration::from_millis(4))], &schema);
        assert_eq!((&batch.at_ms[..], &batch.waited_ms[..]), (&[Some(7), None][..], &[0, 4][..]));
        assert_eq!((&batch.expects[..], &batch.writes[..]), (&[2, 0][..], &[1, 1][..]));
        assert_eq!(batch.expect_version, [0, 3]);
        assert_eq!(batch.write_name, [b"a/1", b"a/2"]);
        assert_eq!(batch.write_kind, [PUT_NEW_STAMP, DELETE]);
        let topics = [Topic::One("a/".into()), Topic::Everything].map(|topic| schema.number_of(&topic));
        assert_eq!(batch.topics, topics, "each once");
    }
}
