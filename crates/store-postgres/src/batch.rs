//! Transactions that waited together, in the form that the server's procedure takes them, and its answer.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use bell_store::topic::{self, Topic};
use bell_store::txn::MAX_LAG;
use bell_store::{
    Committed, Expect, Name, Outcome, Record, Revision, Snapshot, Stamp, Timestamp, Txn, Write,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::address::Schema;
use crate::clock::Told;
use crate::fault::Fault;
use crate::records::{column, name, signed, unsigned};

/// What a statement is sent with, and its type.
pub(crate) type Argument<'a> = (&'a (dyn ToSql + Sync), Type);

/// A transaction with how long it has waited to be sent.
pub(crate) type Waited<'a> = (&'a Txn, Duration);

/// What the server said of a batch.
pub(crate) struct Judged {
    /// `None`: it has not been judged.
    pub(crate) outcomes: Vec<Option<Outcome>>,
    /// The store's revision when they were judged.
    pub(crate) before: Revision,
    /// And from then on.
    pub(crate) after: Revision,
}

/// The arguments that say what to commit. Transactions have numbers, from one on: first those that touch nothing that
/// another of these writes, which are judged together, then the others.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    /// The number of each transaction, in the order in which they were given.
    numbers: Vec<i32>,
    /// The numbers of those that write something.
    writers: BTreeSet<i32>,
    first: i32,
    oldest_ms: Option<i64>,
    newest_ms: Option<i64>,
    at_ms: Vec<Option<i64>>,
    waited_ms: Vec<i64>,
    expects: Expects<'a>,
    later: Expects<'a>,
    put_txn: Vec<i32>,
    put_name: Vec<&'a [u8]>,
    put_value: Vec<&'a [u8]>,
    put_stamps: Vec<bool>,
    keep_name: Vec<&'a [u8]>,
    delete_txn: Vec<i32>,
    delete_name: Vec<&'a [u8]>,
    topics: Vec<i64>,
}

#[derive(Default)]
struct Expects<'a> {
    txn: Vec<i32>,
    name: Vec<&'a [u8]>,
    version: Vec<i64>,
}

impl<'a> Batch<'a> {
    /// Of a store in this schema.
    pub(crate) fn of(txns: &[Waited<'a>], schema: &Schema) -> Self {
        let mut batch = Self { numbers: vec![0; txns.len()], ..Self::default() };
        let (mut written, mut topics) = (HashSet::new(), BTreeSet::new());
        let mut later = Vec::new();
        for (place, (txn, waited)) in txns.iter().enumerate() {
            let mut touched = txn.expect.iter().map(|(name, _)| name).chain(txn.written());
            if touched.any(|name| written.contains(name)) {
                later.push(place);
                continue;
            }
            written.extend(txn.written());
            topics.extend(txn.written().map(|name| topic::of(name.as_str())));
            batch.first += 1;
            batch.numbers[place] = batch.first;
            batch.judge_at(txn, *waited);
            batch.expects.add(batch.first, txn);
            batch.write(batch.first, txn);
        }
        for (number, place) in (batch.first + 1..).zip(later) {
            let (txn, waited) = txns[place];
            batch.numbers[place] = number;
            batch.judge_at(txn, waited);
            batch.later.add(number, txn);
        }
        let written = topics.into_iter().map(|topic| Topic::One(topic.into()));
        batch.topics = written.chain([Topic::Everything]).map(|topic| schema.number_of(&topic)).collect();
        batch
    }

    fn judge_at(&mut self, txn: &Txn, waited: Duration) {
        let at_ms = txn.at.map(|at| signed(at.as_ms()));
        // Time spent here makes nobody's lease shorter than its holder thinks.
        let waited_ms = i64::try_from(waited.as_millis()).unwrap_or(i64::MAX);
        self.at_ms.push(at_ms);
        self.waited_ms.push(waited_ms);
        self.newest_ms = self.newest_ms.max(at_ms);
        let oldest_ms = self.oldest_ms.into_iter().chain(at_ms.map(|at_ms| at_ms.saturating_add(waited_ms)));
        self.oldest_ms = oldest_ms.min();
    }

    fn write(&mut self, number: i32, txn: &'a Txn) {
        if !txn.writes.is_empty() {
            self.writers.insert(number);
        }
        for (name, write) in &txn.writes {
            let name = name.as_str().as_bytes();
            match write {
                Write::Put(value, stamp) => {
                    self.put_txn.push(number);
                    self.put_name.push(name);
                    self.put_value.push(value);
                    self.put_stamps.push(*stamp == Stamp::New);
                    if *stamp == Stamp::Keep {
                        self.keep_name.push(name);
                    }
                }
                Write::Delete => {
                    self.delete_txn.push(number);
                    self.delete_name.push(name);
                }
            }
        }
    }

    /// Whether it writes something, and nothing in it has to wait until the rest is written.
    pub(crate) fn is_simple(&self) -> bool {
        self.numbers.iter().all(|number| *number <= self.first) && !self.writers.is_empty()
    }

    /// About how many bytes it takes on its way.
    pub(crate) fn bytes(&self) -> usize {
        let lists = [&self.expects.name, &self.put_name, &self.put_value, &self.delete_name];
        lists.into_iter().flatten().map(|item| item.len()).sum()
    }

    /// The times, on the store's clock, between which all of them may be judged.
    pub(crate) fn times_ms(&self) -> (i64, i64) {
        let most_ms = i64::try_from(MAX_LAG.as_millis()).unwrap_or(i64::MAX);
        let latest_ms = self.oldest_ms.map_or(i64::MAX, |oldest_ms| oldest_ms.saturating_add(most_ms));
        (self.newest_ms.unwrap_or(i64::MIN), latest_ms)
    }

    /// The sixth to the last parameter of the statement that commits all of them at once.
    pub(crate) fn parameters_at_once(&self) -> [Argument<'_>; 9] {
        [
            (&self.first, Type::INT4),
            (&self.expects.name, Type::BYTEA_ARRAY),
            (&self.expects.version, Type::INT8_ARRAY),
            (&self.put_txn, Type::INT4_ARRAY),
            (&self.put_name, Type::BYTEA_ARRAY),
            (&self.put_value, Type::BYTEA_ARRAY),
            (&self.keep_name, Type::BYTEA_ARRAY),
            (&self.delete_name, Type::BYTEA_ARRAY),
            (&self.topics, Type::INT8_ARRAY),
        ]
    }

    /// The fifth to the last argument of the procedure.
    pub(crate) fn arguments(&self) -> [Argument<'_>; 18] {
        [
            (&self.first, Type::INT4),
            (&self.oldest_ms, Type::INT8),
            (&self.newest_ms, Type::INT8),
            (&self.at_ms, Type::INT8_ARRAY),
            (&self.waited_ms, Type::INT8_ARRAY),
            (&self.expects.txn, Type::INT4_ARRAY),
            (&self.expects.name, Type::BYTEA_ARRAY),
            (&self.expects.version, Type::INT8_ARRAY),
            (&self.later.txn, Type::INT4_ARRAY),
            (&self.later.name, Type::BYTEA_ARRAY),
            (&self.later.version, Type::INT8_ARRAY),
            (&self.put_txn, Type::INT4_ARRAY),
            (&self.put_name, Type::BYTEA_ARRAY),
            (&self.put_value, Type::BYTEA_ARRAY),
            (&self.put_stamps, Type::BOOL_ARRAY),
            (&self.delete_txn, Type::INT4_ARRAY),
            (&self.delete_name, Type::BYTEA_ARRAY),
            (&self.topics, Type::INT8_ARRAY),
        ]
    }

    /// What came of each transaction, at the time that `now` stands for.
    pub(crate) fn outcomes(&self, row: &Row, now: Timestamp) -> Result<Judged, Fault> {
        let (before, wrote): (i64, bool) = (column(row, 2)?, column(row, 3)?);
        let failed: Vec<i32> = column(row, 4)?;
        let failed: HashSet<i32> = failed.into_iter().collect();
        let after = self.after(before, wrote);
        let mut found = found(row)?;
        let outcome = |number: &i32| {
            if failed.contains(number) {
                let records = found.remove(number).unwrap_or_default();
                return Some(Outcome::Conflict(Snapshot { revision: after, now, records, more: false }));
            }
            (*number <= self.first).then_some(Outcome::Committed(self.committed(*number, before, now)))
        };
        let outcomes = self.numbers.iter().map(outcome).collect();
        Ok(Judged { outcomes, before: unsigned(before), after })
    }

    /// What came of them if all were committed at once, after the revision in this answer.
    pub(crate) fn all_committed(&self, row: &Row, now: Timestamp) -> Result<Judged, Fault> {
        let before = column(row, 2)?;
        let committed = |number: &i32| Some(Outcome::Committed(self.committed(*number, before, now)));
        let outcomes = self.numbers.iter().map(committed).collect();
        Ok(Judged { outcomes, before: unsigned(before), after: self.after(before, true) })
    }

    /// The revision that the store has after the batch.
    fn after(&self, before: i64, wrote: bool) -> Revision {
        unsigned(if wrote { before + i64::from(self.first) } else { before })
    }

    fn committed(&self, number: i32, before: i64, now: Timestamp) -> Committed {
        let own = if self.writers.contains(&number) { i64::from(number) } else { 0 };
        Committed { revision: unsigned(before + own), now }
    }
}

impl<'a> Expects<'a> {
    fn add(&mut self, number: i32, txn: &'a Txn) {
        for (name, expect) in &txn.expect {
            self.txn.push(number);
            self.name.push(name.as_str().as_bytes());
            self.version.push(match expect {
                Expect::Absent => 0,
                Expect::At(version) => signed(*version),
            });
        }
    }
}

/// The time in the answer to a commit.
pub(crate) fn told(row: &Row) -> Result<Told, Fault> {
    Ok(Told { now_ms: column(row, 0)?, offset_ms: column(row, 1)? })
}

fn found(row: &Row) -> Result<HashMap<i32, BTreeMap<Name, Record>>, Fault> {
    let (txns, names): (Vec<i32>, Vec<&[u8]>) = (column(row, 5)?, column(row, 6)?);
    let values: Vec<&[u8]> = column(row, 7)?;
    let (versions, stamps): (Vec<i64>, Vec<i64>) = (column(row, 8)?, column(row, 9)?);
    let mut found: HashMap<i32, BTreeMap<Name, Record>> = HashMap::new();
    let numbers = versions.into_iter().zip(stamps);
    for (((txn, bytes), value), (version, stamp)) in txns.into_iter().zip(names).zip(values).zip(numbers) {
        let record = Record { value: value.to_vec(), version: unsigned(version), stamp: unsigned(stamp) };
        found.entry(txn).or_default().insert(name(bytes)?, record);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_at(name: &str, version: u64, value: &str) -> Txn {
        let expect = vec![(name.into(), Expect::seen(version))];
        Txn { at: None, expect, writes: vec![(name.into(), Write::Put(value.into(), Stamp::New))] }
    }

    fn batch<'a>(txns: &[&'a Txn]) -> Batch<'a> {
        let txns: Vec<Waited<'a>> = txns.iter().map(|txn| (*txn, Duration::ZERO)).collect();
        Batch::of(&txns, &Schema::named("bell").unwrap())
    }

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
        assert_eq!((&batch.expects.txn[..], &batch.expects.version[..]), (&[1, 1][..], &[0, 3][..]));
        assert_eq!((&batch.put_txn[..], &batch.delete_txn[..]), (&[1][..], &[2][..]));
        assert_eq!((batch.put_name, batch.delete_name), (vec![&b"a/1"[..]], vec![&b"a/2"[..]]));
        let topics = [Topic::One("a/".into()), Topic::Everything].map(|topic| schema.number_of(&topic));
        assert_eq!(batch.topics, topics, "each once");
    }

    #[test]
    fn whoever_touches_what_an_earlier_one_writes_comes_later() {
        let (one, rival, other) = (put_at("a", 0, "1"), put_at("a", 0, "2"), put_at("b", 0, "1"));
        let reader = Txn { expect: vec![("b".into(), Expect::Absent)], ..Txn::default() };
        let batch = batch(&[&one, &rival, &other, &reader]);
        assert_eq!((batch.first, &batch.numbers[..]), (2, &[1, 3, 2, 4][..]));
        assert_eq!((&batch.put_txn[..], &batch.later.txn[..]), (&[1, 2][..], &[3, 4][..]));
    }

    #[test]
    fn whoever_reads_what_a_later_one_writes_is_judged_with_it() {
        let reader = Txn { expect: vec![("a".into(), Expect::Absent)], ..Txn::default() };
        assert_eq!(batch(&[&reader, &put_at("a", 0, "1")]).first, 2);
    }

    #[test]
    fn the_oldest_and_the_newest_decision_are_known() {
        let at = |ms| Txn { at: Some(Timestamp::from_ms(ms)), ..Txn::default() };
        let (early, late, timeless) = (at(5), at(9), Txn::default());
        let waited =
            [(&early, Duration::from_millis(3)), (&late, Duration::ZERO), (&timeless, Duration::ZERO)];
        let batch = Batch::of(&waited, &Schema::named("bell").unwrap());
        assert_eq!((batch.oldest_ms, batch.newest_ms), (Some(8), Some(9)));
    }
}
