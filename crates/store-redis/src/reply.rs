//! What the scripts answer, and records as they are stored.

use std::collections::BTreeMap;

use bell_store::{Kind, Name, Record, Revision, Snapshot, Timestamp, Version};
use redis::Value;

use crate::batch::Ended;
use crate::fault::{Fault, foreign};
use crate::witness::Told;

/// Digits of a version and of a stamp in front of a value.
const DIGITS: usize = 16;

/// The answer of a script.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reply {
    pub(crate) word: Word,
    pub(crate) revision: Revision,
    /// The store's clock; [`Reply::told`] says when.
    pub(crate) told: Told,
    /// What is added to the server's clock.
    pub(crate) offset_ms: i64,
    rest: Vec<Value>,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Ok,
    Rewound(Rewound),
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
    /// Reads an answer.
    pub(crate) fn parse(mut answer: Vec<Value>, times: Times) -> Result<Self, Fault> {
        let said = answer.first().and_then(bytes).unwrap_or_default().to_vec();
        let word = match said.as_slice() {
            b"ok" => Word::Ok,
            b"missing" => Word::Rewound(Rewound::Missing),
            b"restarted" => Word::Rewound(Rewound::Restarted),
            b"behind" => Word::Rewound(Rewound::Behind),
            b"foreign" => return Err(foreign()),
            b"forbidden" => return Err(forbidden(answer.get(1).and_then(bytes).unwrap_or_default())),
            b"newer" => return Err(newer()),
            b"damaged" => return Err(damaged("names and records differ in number")),
            _ => return Err(nonsense()),
        };
        let number = |place: usize| match answer.get(place) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        };
        let now_ms = u64::try_from(number(2)).unwrap_or(0);
        let told = Told { now_ms, sent: times.sent, arrived: times.arrived };
        let revision = u64::try_from(number(1)).unwrap_or(0);
        let offset_ms = number(3);
        Ok(Self { word, revision, told, offset_ms, rest: answer.split_off(answer.len().min(4)) })
    }

    /// The store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.told.now_ms)
    }

    /// The records of these names, which were asked for in this order.
    pub(crate) fn records_of(&self, names: &[Name]) -> Result<Snapshot, Fault> {
        Ok(self.snapshot(records(names, array(self.rest.first()))?, false))
    }

    /// What came of the transaction at this place of a batch, which expected these names.
    pub(crate) fn ended(&self, place: usize, expected: &[Name]) -> Result<Ended, Fault> {
        match array(self.rest.first()).get(place) {
            Some(Value::Int(revision)) => Ok(Ended::Committed(u64::try_from(*revision).unwrap_or(0))),
            Some(Value::Array(conflict)) => {
                let Some(Value::Int(revision)) = conflict.first() else { return Err(nonsense()) };
                let records = records(expected, array(conflict.get(1)))?;
                let revision = u64::try_from(*revision).unwrap_or(0);
                Ok(Ended::Conflict(Snapshot { revision, ..self.snapshot(records, false) }))
            }
            _ => Err(nonsense()),
        }
    }

    /// The records of a scan for at most this many; one more was asked for.
    pub(crate) fn scanned(&self, limit: usize) -> Result<Snapshot, Fault> {
        let (names, found) = (array(self.rest.first()), array(self.rest.get(1)));
        let page = names.iter().zip(found).take(limit);
        let records = page.map(|(name, value)| Ok((name_of(name)?, record(value)?)));
        Ok(self.snapshot(records.collect::<Result<_, Fault>>()?, names.len() > limit))
    }

    fn snapshot(&self, records: BTreeMap<Name, Record>, more: bool) -> Snapshot {
        Snapshot { revision: self.revision, now: self.now(), records, more }
    }
}

/// A version as it is stored: what an expectation is compared with, byte by byte.
pub(crate) fn version_text(version: Version) -> String {
    if version == 0 { "0".to_owned() } else { format!("{version:0DIGITS$}") }
}

/// Those of these names that were found, which was asked in this order.
fn records(names: &[Name], found: &[Value]) -> Result<BTreeMap<Name, Record>, Fault> {
    let found = names.iter().zip(found).filter(|(_, value)| **value != Value::Nil);
    found.map(|(name, value)| Ok((name.clone(), record(value)?))).collect()
}

fn record(stored: &Value) -> Result<Record, Fault> {
    let split = |bytes: &[u8]| {
        let (version, rest) = bytes.split_at_checked(DIGITS)?;
        let (stamp, value) = rest.split_at_checked(DIGITS)?;
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
        Some(Record { value: value.to_vec(), version: number(version)?, stamp: number(stamp)? })
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

fn newer() -> Fault {
    Fault::new(Kind::TooNew, "a newer Bellwether made this store", "Use that version, or another prefix.")
}

fn forbidden(command: &[u8]) -> Fault {
    Fault::new(
        Kind::Unauthorized,
        format!("this user may not run {} on the keys of the store", String::from_utf8_lossy(command)),
        "Give this user the rights that the page on Redis lists (ACL SETUSER).",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn parsed(answer: Vec<Value>) -> Result<Reply, Fault> {
        Reply::parse(answer, Times { sent: Duration::ZERO, arrived: Duration::ZERO })
    }

    fn ok(rest: Vec<Value>) -> Reply {
        let start = vec![text("ok"), Value::Int(7), Value::Int(1_000), Value::Int(-5)];
        parsed(start.into_iter().chain(rest).collect()).unwrap()
    }

    #[test]
    fn records_are_read_by_name_and_missing_ones_left_out() {
        let stored = text("00000000000000050000000000000003value");
        let reply = ok(vec![Value::Array(vec![Value::Nil, stored])]);
        let names: [Name; 2] = ["a".into(), "b".into()];
        let found = reply.records_of(&names).unwrap();
        let record = Record { value: b"value".to_vec(), version: 5, stamp: 3 };
        assert_eq!(found.records, BTreeMap::from([("b".into(), record)]));
        assert_eq!((found.revision, found.now, reply.offset_ms), (7, Timestamp::from_ms(1_000), -5));
    }

    #[test]
    fn each_transaction_of_a_batch_has_its_own_outcome() {
        let stored = text("00000000000000050000000000000003value");
        let conflict = Value::Array(vec![Value::Int(6), Value::Array(vec![stored, Value::Nil])]);
        let reply = ok(vec![Value::Array(vec![Value::Int(6), conflict, Value::Int(7)])]);
        let names: [Name; 2] = ["a".into(), "b".into()];
        assert_eq!(reply.ended(0, &names).unwrap(), Ended::Committed(6));
        assert_eq!(reply.ended(2, &[]).unwrap(), Ended::Committed(7));
        let Ended::Conflict(found) = reply.ended(1, &names).unwrap() else { panic!("no conflict") };
        let record = Record { value: b"value".to_vec(), version: 5, stamp: 3 };
        assert_eq!((found.revision, found.records), (6, BTreeMap::from([("a".into(), record)])));
        assert_eq!(reply.ended(3, &[]).unwrap_err().kind, Kind::Corrupt);
    }

    #[test]
    fn a_scan_that_found_one_more_says_so() {
        let stored = text("00000000000000050000000000000003");
        let reply =
            ok(vec![Value::Array(vec![text("a"), text("b")]), Value::Array(vec![stored.clone(), stored])]);
        let page = reply.scanned(1).unwrap();
        assert_eq!((page.records.len(), page.more), (1, true));
        assert_eq!((reply.scanned(2).unwrap().records.len(), reply.scanned(2).unwrap().more), (2, false));
    }

    #[test]
    fn a_name_without_a_record_is_damage() {
        let reply = ok(vec![Value::Array(vec![text("a")]), Value::Array(vec![Value::Nil])]);
        assert_eq!(reply.scanned(1).unwrap_err().kind, Kind::Corrupt);
    }

    #[test]
    fn each_refusal_has_its_kind() {
        for (word, kind) in [
            ("foreign", Kind::Invalid),
            ("newer", Kind::TooNew),
            ("damaged", Kind::Corrupt),
            ("?", Kind::Corrupt),
        ] {
            assert_eq!(parsed(vec![text(word)]).unwrap_err().kind, kind, "{word}");
        }
        let forbidden = parsed(vec![text("forbidden"), text("PUBLISH")]).unwrap_err();
        assert!(forbidden.why.contains("PUBLISH") && forbidden.kind == Kind::Unauthorized);
    }

    #[test]
    fn a_store_that_went_back_is_refused_with_the_one_command() {
        let reply = parsed(vec![text("missing")]).unwrap();
        assert_eq!(reply.word, Word::Rewound(Rewound::Missing));
        for why in [Rewound::Missing, Rewound::Restarted, Rewound::Behind] {
            assert_eq!(why.fault().kind, Kind::Rewound);
            assert!(why.fault().hint.contains("bell store raise-epoch --yes"));
        }
    }

    #[test]
    fn versions_are_compared_as_they_are_stored() {
        assert_eq!(version_text(0), "0");
        assert_eq!(version_text(5), "0000000000000005");
        assert_eq!(version_text(u64::MAX), "18446744073709551615");
    }
}
