//! One transaction that takes or gives back a lock, as the statements for those who go alone take it.
//!
//! What such a transaction looks at and writes fits into a fixed number of parameters, for which the server needs no lists
//! and no joins. Whatever is larger, or mixed, is a [`crate::batch::Batch`] of one.

use std::time::Duration;

use bell_store::topic::{self, Topic};
use bell_store::txn::MAX_LAG;
use bell_store::{Expect, Name, Stamp, Txn, Write};
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::batch::Argument;
use crate::link::Phrase;
use crate::records::signed;

/// How many parameters the longer of the statements has.
pub(crate) const PARAMETERS: usize = 17;

const PUT: &str = concat!(include_str!("sql/alone.sql"), include_str!("sql/alone_put.sql"));
const DELETE: &str = concat!(include_str!("sql/alone.sql"), include_str!("sql/alone_delete.sql"));

/// The statements, for a store in some schema.
pub(crate) struct Statements {
    put: String,
    delete: String,
}

impl Statements {
    pub(crate) fn of(schema: &Schema) -> Self {
        Self { put: schema.fill(PUT), delete: schema.fill(DELETE) }
    }
}

/// Such a transaction.
pub(crate) struct Alone<'a> {
    earliest_ms: i64,
    latest_ms: i64,
    /// If it expects one thing only, that twice.
    expects: [(&'a [u8], i64); 2],
    topics: [i64; 3],
    written: Written<'a>,
}

enum Written<'a> {
    Put { puts: [(&'a [u8], &'a [u8]); 2], kept: Vec<&'a [u8]> },
    Deleted([&'a [u8]; 2]),
}

impl<'a> Alone<'a> {
    /// `None`: it is of another shape.
    pub(crate) fn of(txn: &'a Txn, waited: Duration, schema: &Schema) -> Option<Self> {
        let expects = match &txn.expect[..] {
            [one] => [expected(one); 2],
            [one, other] => [expected(one), expected(other)],
            _ => return None,
        };
        let [(first, first_write), (second, second_write)] = &txn.writes[..] else { return None };
        let (first_name, second_name) = (first.as_str().as_bytes(), second.as_str().as_bytes());
        let written = match (first_write, second_write) {
            (Write::Put(value, stamp), Write::Put(other, other_stamp)) => {
                let stamps = [(first_name, stamp), (second_name, other_stamp)];
                let kept = stamps.into_iter().filter(|(_, stamp)| **stamp == Stamp::Keep);
                Written::Put {
                    puts: [(first_name, value), (second_name, other)],
                    kept: kept.map(|(name, _)| name).collect(),
                }
            }
            (Write::Delete, Write::Delete) => Written::Deleted([first_name, second_name]),
            (Write::Put(..), Write::Delete) | (Write::Delete, Write::Put(..)) => return None,
        };
        let topic = |name: &Name| schema.number_of(&Topic::One(topic::of(name.as_str()).into()));
        let topics = [topic(first), topic(second), schema.number_of(&Topic::Everything)];
        let at_ms = txn.at.map(|at| signed(at.as_ms()));
        // Time spent here makes nobody's lease shorter than its holder thinks.
        let lag_ms = i64::try_from((waited + MAX_LAG).as_millis()).unwrap_or(i64::MAX);
        let latest_ms = at_ms.map_or(i64::MAX, |at_ms| at_ms.saturating_add(lag_ms));
        Some(Self { earliest_ms: at_ms.unwrap_or(i64::MIN), latest_ms, expects, topics, written })
    }

    /// It must be judged by then.
    pub(crate) fn no_later_than(mut self, latest_ms: i64) -> Self {
        self.latest_ms = self.latest_ms.min(latest_ms);
        self
    }

    /// About how many bytes it takes on its way.
    pub(crate) fn bytes(&self) -> usize {
        let expected: usize = self.expects.iter().map(|(name, _)| name.len()).sum();
        let written: usize = match &self.written {
            Written::Put { puts, .. } => puts.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Written::Deleted(names) => names.iter().map(|name| name.len()).sum(),
        };
        expected + written
    }

    /// The statement that commits it.
    pub(crate) fn statement<'s>(&self, statements: &'s Statements) -> (&'s str, Phrase) {
        match self.written {
            Written::Put { .. } => (&statements.put, Phrase::PutAlone),
            Written::Deleted(_) => (&statements.delete, Phrase::DeleteAlone),
        }
    }

    /// Adds the fourth to the last parameter of that.
    pub(crate) fn add_to<'p>(&'p self, parameters: &mut Vec<Argument<'p>>) {
        parameters.push((&self.earliest_ms, Type::INT8));
        parameters.push((&self.latest_ms, Type::INT8));
        for (name, version) in &self.expects {
            parameters.push((name, Type::BYTEA));
            parameters.push((version, Type::INT8));
        }
        parameters.extend(self.topics.iter().map(|number| (number as _, Type::INT8)));
        match &self.written {
            Written::Put { puts, kept } => {
                for (name, value) in puts {
                    parameters.push((name, Type::BYTEA));
                    parameters.push((value, Type::BYTEA));
                }
                parameters.push((kept, Type::BYTEA_ARRAY));
            }
            Written::Deleted(names) => {
                parameters.extend(names.iter().map(|name| (name as _, Type::BYTEA)));
            }
        }
    }
}

fn expected((name, expect): &(Name, Expect)) -> (&[u8], i64) {
    let version = match expect {
        Expect::Absent => 0,
        Expect::At(version) => signed(*version),
    };
    (name.as_str().as_bytes(), version)
}

#[cfg(test)]
mod tests {
    use bell_store::Timestamp;

    use super::*;

    const AT_MS: u64 = 1_000;

    fn put(stamp: Stamp) -> Write {
        Write::Put(b"v".to_vec(), stamp)
    }

    fn txn(expects: usize, writes: Vec<Write>) -> Txn {
        let names = ["lock/a", "held/s/a", "session/s"];
        let expect = names.iter().take(expects).map(|name| ((*name).into(), Expect::At(7))).collect();
        let writes = names.iter().zip(writes).map(|(name, write)| ((*name).into(), write)).collect();
        Txn { at: Some(Timestamp::from_ms(AT_MS)), expect, writes }
    }

    fn phrase(txn: &Txn) -> Option<Phrase> {
        let schema = Schema::named("bell").unwrap();
        let alone = Alone::of(txn, Duration::ZERO, &schema)?;
        let statements = Statements::of(&schema);
        let (statement, phrase) = alone.statement(&statements);
        let mut parameters = Vec::new();
        alone.add_to(&mut parameters);
        let last = 3 + parameters.len();
        assert!(last <= PARAMETERS && statement.contains(&format!("${last}")), "three come before");
        assert!(!statement.contains(&format!("${}", last + 1)), "and none is missing");
        Some(phrase)
    }

    #[test]
    fn taking_a_lock_and_giving_it_back_go_alone() {
        let taken = txn(2, vec![put(Stamp::New), put(Stamp::Keep)]);
        assert_eq!(phrase(&taken), Some(Phrase::PutAlone));
        let given_back = txn(1, vec![Write::Delete, Write::Delete]);
        assert_eq!(phrase(&given_back), Some(Phrase::DeleteAlone));
    }

    #[test]
    fn what_expects_or_writes_more_less_or_both_ways_does_not() {
        let both = || vec![Write::Delete, Write::Delete];
        let others = [
            txn(0, both()),
            txn(3, both()),
            txn(1, vec![Write::Delete]),
            txn(1, vec![Write::Delete; 3]),
            txn(1, vec![Write::Delete, put(Stamp::New)]),
        ];
        for other in others {
            assert_eq!(phrase(&other), None, "{other:?}");
        }
    }

    #[test]
    fn only_stamps_that_stay_are_named() {
        let taken = txn(1, vec![put(Stamp::New), put(Stamp::Keep)]);
        let alone = Alone::of(&taken, Duration::ZERO, &Schema::named("bell").unwrap()).unwrap();
        let Written::Put { kept, .. } = &alone.written else { panic!("it puts") };
        assert_eq!(kept, &[b"held/s/a"]);
    }

    #[test]
    fn time_spent_waiting_is_granted() {
        let (taken, waited) = (txn(1, vec![Write::Delete, Write::Delete]), Duration::from_millis(30));
        let alone = Alone::of(&taken, waited, &Schema::named("bell").unwrap()).unwrap();
        let latest_ms = signed(AT_MS) + 30 + signed(MAX_LAG.as_millis() as u64);
        assert_eq!((alone.earliest_ms, alone.latest_ms), (signed(AT_MS), latest_ms));
        assert_eq!(alone.no_later_than(5).latest_ms, 5);
    }
}
