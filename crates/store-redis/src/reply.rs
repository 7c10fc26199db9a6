//! What the scripts answer, and records as they are stored.

use std::collections::BTreeMap;

use bell_store::{Kind, Name, Record, Revision, Snapshot, Timestamp, Txn};
use redis::Value;

use crate::batch::Ended;
use crate::fault::{Fault, foreign};
use crate::listened::Listened;
use crate::witness::Told;

/// The format of what is stored, as in `constants.lua`.
pub(crate) const FORMAT: u8 = 3;

/// The version of a record; the byte in front of it is the scripts' own.
const VERSION_BITS: u64 = u64::MAX >> 8;

/// The answer of a script.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reply {
    pub(crate) word: Word,
    pub(crate) revision: Revision,
    /// The store's clock; [`Reply::told`] says when.
    pub(crate) told: Told,
    /// What is added to the server's clock.
    pub(crate) offset_ms: i64,
    /// Of each transaction: whether it was committed (`1`) or not (`0`).
    outcomes: Vec<u8>,
    rest: Vec<Value>,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Ok,
    Rewound(Rewound),
    /// Nothing was done: others are listened to than whoever asked knows.
    Outdated,
}

/// Why the store may have gone back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rewound {
    /// There was a store here, and there is none.
    Missing,
    /// Another process of the server has the data now, and may not have all of it.
    Restarted,
    /// Its last revision is lower than one that this process has seen.
    Behind,
}

impl Rewound {
    pub(crate) fn fault(self) -> Fault {
        let why = match self {
            Self::Missing => "the store may have gone back: its records are gone from the server",
            Self::Restarted => {
                "the store may have gone back: the server was restarted or replaced, and can lose what it \
                 acknowledged"
            }
            Self::Behind => "the store has gone back: commits that were acknowledged are gone",
        };
        let hint =
            "Make sure that nobody relies on locks granted before, then run `bell store raise-epoch --yes`.";
        Fault::new(Kind::Rewound, why, hint)
    }
}

/// On this machine's boot clock: when a question left, and when its answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    pub(crate) sent: std::time::Duration,
    pub(crate) arrived: std::time::Duration,
}

impl Reply {
    /// Reads an answer: a text, or a list that begins with one.
    pub(crate) fn parse(answer: Value, times: Times) -> Result<Self, Fault> {
        let (said, rest) = match answer {
            Value::BulkString(said) => (said, Vec::new()),
            Value::Array(mut list) if !list.is_empty() => {
                let rest = list.split_off(1);
                match list.pop() {
                    Some(Value::BulkString(said)) => (said, rest),
                    _ => return Err(nonsense()),
                }
            }
            _ => return Err(nonsense()),
        };
        let told = |now_ms| Told { now_ms, sent: times.sent, arrived: times.arrived };
        match said.strip_prefix(b"ok") {
            Some(numbers) => {
                let mut numbers = numbers;
                let mut next = || number(&mut numbers).ok_or_else(nonsense);
                let (revision, now_ms, offset) = (next()?, next()?, next()?);
                let (told, offset_ms) = (told(now_ms), offset.cast_signed());
                Ok(Self { word: Word::Ok, revision, told, offset_ms, outcomes: numbers.to_vec(), rest })
            }
            None => {
                let word = refusal(&said)?;
                Ok(Self { word, revision: 0, told: told(0), offset_ms: 0, outcomes: Vec::new(), rest })
            }
        }
    }

    /// The store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.told.now_ms)
    }

    /// The records of these names, which were asked for in this order.
    pub(crate) fn records_of(&self, names: &[Name]) -> Result<Snapshot, Fault> {
        Ok(self.snapshot(records(names, &self.rest)?, false))
    }

    /// What came of each of these transactions, in their order. The revision rose by one with each that wrote.
    pub(crate) fn ended(&self, txns: &[Txn]) -> Vec<Result<Ended, Fault>> {
        let wrote = |(txn, outcome): (&Txn, &u8)| *outcome == b'1' && !txn.writes.is_empty();
        let written = txns.iter().zip(&self.outcomes).filter(|each| wrote(*each)).count();
        let mut revision = self.revision.saturating_sub(written as u64);
        let (mut outcomes, mut conflicts) = (self.outcomes.iter(), self.rest.iter());
        let each = |txn: &Txn| match outcomes.next() {
            Some(b'1') => {
                revision += u64::from(!txn.writes.is_empty());
                Ok(Ended::Committed(revision))
            }
            Some(b'0') => self.conflict(txn, revision, conflicts.next()),
            _ => Err(nonsense()),
        };
        txns.iter().map(each).collect()
    }

    fn conflict(&self, txn: &Txn, revision: Revision, found: Option<&Value>) -> Result<Ended, Fault> {
        let Some(Value::Array(found)) = found else { return Err(nonsense()) };
        let expected: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
        let found = self.snapshot(records(&expected, found)?, false);
        Ok(Ended::Conflict(Snapshot { revision, ..found }))
    }

    /// The records of a scan for at most this many; one more was asked for.
    pub(crate) fn scanned(&self, limit: usize) -> Result<Snapshot, Fault> {
        let (names, found) = (array(self.rest.first()), array(self.rest.get(1)));
        let page = names.iter().zip(found).take(limit);
        let records = page.map(|(name, value)| Ok((name_of(name)?, record(value)?)));
        Ok(self.snapshot(records.collect::<Result<_, Fault>>()?, names.len() > limit))
    }

    /// What is listened to.
    pub(crate) fn listened(&self) -> Result<Listened, Fault> {
        Listened::parse(&self.rest).ok_or_else(nonsense)
    }

    fn snapshot(&self, records: BTreeMap<Name, Record>, more: bool) -> Snapshot {
        Snapshot { revision: self.revision, now: self.now(), records, more }
    }
}

/// What the script's refusal means.
fn refusal(said: &[u8]) -> Result<Word, Fault> {
    let said = String::from_utf8_lossy(said);
    let (word, detail) = said.split_once(' ').unwrap_or((&said, ""));
    Err(match word {
        "missing" => return Ok(Word::Rewound(Rewound::Missing)),
        "restarted" => return Ok(Word::Rewound(Rewound::Restarted)),
        "behind" => return Ok(Word::Rewound(Rewound::Behind)),
        "listened" => return Ok(Word::Outdated),
        "foreign" => foreign(),
        "forbidden" => forbidden(detail),
        "format" => other_format(detail),
        "damaged" => damaged("names and records differ in number, or a part is missing"),
        _ => nonsense(),
    })
}

/// Takes a number off the front.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

/// Those of these names that were found, which was asked in this order.
fn records(names: &[Name], found: &[Value]) -> Result<BTreeMap<Name, Record>, Fault> {
    // A deleted record is empty.
    let is_absent = |value: &Value| *value == Value::Nil || bytes(value).is_some_and(<[u8]>::is_empty);
    let found = names.iter().zip(found).filter(|(_, value)| !is_absent(value));
    found.map(|(name, value)| Ok((name.clone(), record(value)?))).collect()
}

fn record(stored: &Value) -> Result<Record, Fault> {
    let split = |bytes: &[u8]| {
        let mut rest = bytes;
        let (version, stamp) = (number(&mut rest)? & VERSION_BITS, number(&mut rest)?);
        Some(Record { value: rest.to_vec(), version, stamp })
    };
    bytes(stored).and_then(split).ok_or_else(|| damaged("a record can't be read"))
}

fn name_of(value: &Value) -> Result<Name, Fault> {
    let name = bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok());
    name.map(Name::from).ok_or_else(|| damaged("a name can't be read"))
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn array(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

fn damaged(why: &str) -> Fault {
    Fault::new(
        Kind::Corrupt,
        format!("what is stored can't be trusted: {why}"),
        "Restore the database from a backup, or use another prefix; keys of a store must not be written by hand.",
    )
}

fn nonsense() -> Fault {
    damaged("a script gave an answer that it can't give")
}

fn other_format(format: &str) -> Fault {
    let hint = "Use that version, or another prefix.";
    if format.parse().is_ok_and(|format: u8| format < FORMAT) {
        Fault::new(Kind::Unsupported, format!("an older Bellwether made this store (format {format})"), hint)
    } else {
        Fault::new(Kind::TooNew, format!("a newer Bellwether made this store (format {format})"), hint)
    }
}

fn forbidden(command: &str) -> Fault {
    Fault::new(
        Kind::Unauthorized,
        format!("this user may not run {command} on the keys of the store"),
        "Give this user the rights that the page on Redis lists (ACL SETUSER).",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bell_store::{Expect, Write};

    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// As the scripts write numbers.
    fn packed(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn stored(version: u64, stamp: u64, value: &str) -> Value {
        Value::BulkString([&packed(&[version, stamp]), value.as_bytes()].concat())
    }

    fn parsed(answer: Value) -> Result<Reply, Fault> {
        Reply::parse(answer, Times { sent: Duration::ZERO, arrived: Duration::ZERO })
    }

    fn ok(outcomes: &[u8], rest: Vec<Value>) -> Reply {
        let said = [b"ok", packed(&[7, 1_000, (-5_i64).cast_unsigned()]).as_slice(), outcomes].concat();
        parsed(Value::Array([vec![Value::BulkString(said)], rest].concat())).unwrap()
    }

    #[test]
    fn records_are_read_by_name_and_missing_ones_left_out() {
        let reply = ok(&[], vec![Value::Nil, stored(5, 3, "value")]);
        let names: [Name; 2] = ["a".into(), "b".into()];
        let found = reply.records_of(&names).unwrap();
        let record = Record { value: b"value".to_vec(), version: 5, stamp: 3 };
        assert_eq!(found.records, BTreeMap::from([("b".into(), record)]));
        assert_eq!((found.revision, found.now, reply.offset_ms), (7, Timestamp::from_ms(1_000), -5));
    }

    #[test]
    fn each_transaction_of_a_batch_has_its_own_outcome() {
        let found = [stored(5, 3, "value"), Value::Nil, text("")].into();
        let reply = ok(b"101", vec![Value::Array(found)]);
        let names: [Name; 3] = ["a".into(), "b".into(), "deleted".into()];
        let expect = names.map(|name| (name, Expect::Absent)).into();
        let writing = Txn { writes: vec![("a".into(), Write::Delete)], ..Txn::default() };
        let txns = [Txn::default(), Txn { expect, ..writing.clone() }, writing, Txn::default()];
        let ended = reply.ended(&txns);
        assert_eq!(ended[0], Ok(Ended::Committed(6)));
        let Ok(Ended::Conflict(found)) = &ended[1] else { panic!("no conflict") };
        let record = Record { value: b"value".to_vec(), version: 5, stamp: 3 };
        assert_eq!((found.revision, &found.records), (6, &BTreeMap::from([("a".into(), record)])));
        assert_eq!(ended[2], Ok(Ended::Committed(7)));
        assert_eq!(ended[3].as_ref().unwrap_err().kind, Kind::Corrupt);
    }

    #[test]
    fn a_scan_that_found_one_more_says_so() {
        let found = vec![stored(5, 3, ""), stored(5, 3, "")];
        let reply = ok(&[], vec![Value::Array(vec![text("a"), text("b")]), Value::Array(found)]);
        let page = reply.scanned(1).unwrap();
        assert_eq!((page.records.len(), page.more), (1, true));
        assert_eq!((reply.scanned(2).unwrap().records.len(), reply.scanned(2).unwrap().more), (2, false));
    }

    #[test]
    fn a_name_without_a_record_is_damage() {
        let reply = ok(&[], vec![Value::Array(vec![text("a")]), Value::Array(vec![Value::Nil])]);
        assert_eq!(reply.scanned(1).unwrap_err().kind, Kind::Corrupt);
    }

    #[test]
    fn each_refusal_has_its_kind() {
        for (words, kind) in [
            ("foreign", Kind::Invalid),
            ("format 1", Kind::Unsupported),
            ("format 2", Kind::Unsupported),
            ("format 4", Kind::TooNew),
            ("format x", Kind::TooNew),
            ("damaged", Kind::Corrupt),
            ("ok", Kind::Corrupt),
            ("?", Kind::Corrupt),
        ] {
            assert_eq!(parsed(text(words)).unwrap_err().kind, kind, "{words}");
        }
        let forbidden = parsed(text("forbidden PUBLISH")).unwrap_err();
        assert!(forbidden.why.contains("PUBLISH") && forbidden.kind == Kind::Unauthorized);
    }

    #[test]
    fn the_byte_in_front_of_a_version_is_no_part_of_it() {
        let reply = ok(&[], vec![stored((1 << 56) + 5, 3, "value")]);
        assert_eq!(reply.records_of(&["a".into()]).unwrap().version("a"), 5);
    }

    #[test]
    fn whoever_does_not_know_what_is_listened_to_hears_so() {
        assert_eq!(parsed(text("listened")).unwrap().word, Word::Outdated);
    }

    #[test]
    fn a_store_that_went_back_is_refused_with_the_one_command() {
        let reply = parsed(text("missing")).unwrap();
        assert_eq!(reply.word, Word::Rewound(Rewound::Missing));
        for why in [Rewound::Missing, Rewound::Restarted, Rewound::Behind] {
            assert_eq!(why.fault().kind, Kind::Rewound);
            assert!(why.fault().hint.contains("bell store raise-epoch --yes"));
        }
    }
}
