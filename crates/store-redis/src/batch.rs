//! Transactions that waited together, as the script takes them, and what it says of each.
//!
//! The script judges them one after the other, so each succeeds or conflicts on its own and has a revision of
//! its own; what all of them have to go through anyway is done once.

use bell_store::txn::MAX_LAG;
use bell_store::{Expect, Name, Revision, Snapshot, Stamp, Timestamp, Txn, Write, topic};
use redis::Cmd;

use crate::notice;

/// Transactions sent together at the most. What they share is well shared by then, and the server does
/// nothing else meanwhile.
pub(crate) const MAX_TXNS: usize = 64;

/// Beyond this many bytes a batch is sent as it is: the first of its callers waits for the last.
const MAX_BYTES: usize = 1 << 20;

/// Beyond this many names too: Lua passes fewer than 8,000 arguments to a call, two of them for each name.
const MAX_NAMES: usize = 2_000;

/// How many of these to send together: at least one.
pub(crate) fn size<'a>(txns: impl Iterator<Item = &'a Txn>) -> usize {
    let (mut bytes, mut names) = (0, 0);
    let fits = |txn: &&Txn| {
        let is_room = bytes < MAX_BYTES && names < MAX_NAMES;
        bytes += bytes_of(txn);
        names += txn.expect.len() + txn.writes.len();
        is_room
    };
    txns.take(MAX_TXNS).take_while(fits).count()
}

fn bytes_of(txn: &Txn) -> usize {
    let value = |write: &Write| match write {
        Write::Put(value, _) => value.len(),
        Write::Delete => 0,
    };
    txn.writes.iter().map(|(name, write)| name.as_str().len() + value(write)).sum()
}

/// Adds transactions to the script's arguments, by one who has seen this revision. What they write is told on
/// `channel` and the names' topics.
pub(crate) fn add(request: &mut Cmd, txns: &[Txn], seen: Revision, channel: &str) {
    request.arg(numbers(txns, seen));
    for part in txns.iter().flat_map(parts) {
        request.arg(part.name.as_str());
    }
    for part in txns.iter().flat_map(parts) {
        if let Some(Write::Put(value, _)) = part.write {
            request.arg(value);
        }
    }
    for (topic, message) in told(txns) {
        request.arg(topic_channel(channel, topic)).arg(message);
    }
}

/// What a transaction says of one name.
struct Part<'a> {
    name: &'a Name,
    expect: Option<Expect>,
    write: Option<&'a Write>,
}

/// Everything that a transaction says, what it expects first. A name is written where it is first expected.
fn parts(txn: &Txn) -> impl Iterator<Item = Part<'_>> {
    let is_expected = |name: &Name| txn.expect.iter().any(|(expected, _)| expected == name);
    let expected = txn.expect.iter().enumerate().map(|(place, (name, expect))| {
        let is_repeated = txn.expect[..place].iter().any(|(earlier, _)| earlier == name);
        let write = txn.writes.iter().find(|(written, _)| written == name && !is_repeated);
        Part { name, expect: Some(*expect), write: write.map(|(_, write)| write) }
    });
    let others = txn.writes.iter().filter(move |(name, _)| !is_expected(name));
    expected.chain(others.map(|(name, write)| Part { name, expect: None, write: Some(write) }))
}

/// The numbers that the script takes.
fn numbers(txns: &[Txn], seen: Revision) -> Vec<u8> {
    let mut numbers = Numbers::default();
    numbers.add(seen);
    numbers.add_time(txns.iter().filter_map(|txn| txn.at).max());
    numbers.add(u64::try_from(MAX_LAG.as_millis()).unwrap_or(u64::MAX));
    numbers.add(txns.iter().flat_map(parts).count() as u64);
    for txn in txns {
        numbers.add_time(txn.at);
        numbers.add(parts(txn).count() as u64);
        for part in parts(txn) {
            let write = match part.write {
                None => 0,
                Some(Write::Put(_, Stamp::New)) => 1,
                Some(Write::Put(_, Stamp::Keep)) => 2,
                Some(Write::Delete) => 3,
            };
            let (expected, version) = match part.expect {
                None => (0, 0),
                Some(Expect::Absent) => (4, 0),
                Some(Expect::At(version)) => (4, version),
            };
            numbers.add(expected + write);
            numbers.add(version);
        }
    }
    numbers.packed()
}

/// An array of numbers in MessagePack, which the server unpacks faster than anything in Lua could.
#[derive(Default)]
struct Numbers {
    count: u32,
    bytes: Vec<u8>,
}

impl Numbers {
    fn add(&mut self, number: u64) {
        self.count += 1;
        match u8::try_from(number) {
            Ok(small @ 0..=0x7f) => self.bytes.push(small),
            _ => {
                self.bytes.push(0xcf);
                self.bytes.extend(number.to_be_bytes());
            }
        }
    }

    /// A time, or false.
    fn add_time(&mut self, at: Option<Timestamp>) {
        match at {
            Some(at) => self.add(at.as_ms()),
            None => {
                self.count += 1;
                self.bytes.push(0xc2);
            }
        }
    }

    fn packed(self) -> Vec<u8> {
        let mut packed = vec![0xdd];
        packed.extend(self.count.to_be_bytes());
        packed.extend(self.bytes);
        packed
    }
}

/// The channel of a topic.
pub(crate) fn topic_channel(channel: &str, topic: &str) -> String {
    format!("{channel}:{topic}")
}

/// What transactions have to tell, by topic. Told also of those that conflict, if another of them does not: whoever
/// hears it looks once for nothing.
fn told(txns: &[Txn]) -> Vec<(&str, String)> {
    let mut told: Vec<(&str, String)> = Vec::new();
    for name in txns.iter().flat_map(Txn::written).map(Name::as_str) {
        let topic = topic::of(name);
        let place = told.iter().position(|(other, _)| *other == topic).unwrap_or_else(|| {
            told.push((topic, String::new()));
            told.len() - 1
        });
        notice::tell(&mut told[place].1, name);
    }
    told
}

/// What came of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ended {
    Committed(Revision),
    /// With the expected records as they were, and the time in the answer.
    Conflict(Snapshot),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize) -> Txn {
        Txn { writes: vec![("a".into(), Write::Put(vec![0; bytes], Stamp::New))], ..Txn::default() }
    }

    #[test]
    fn a_batch_is_bounded_in_number_and_in_bytes() {
        let small = vec![put(1); MAX_TXNS + 1];
        assert_eq!(size(small.iter()), MAX_TXNS);
        let large = [put(MAX_BYTES / 2), put(MAX_BYTES), put(1)];
        assert_eq!(size(large.iter()), 2, "the one that crosses the limit still goes");
    }

    #[test]
    fn however_large_one_is_it_goes() {
        assert_eq!(size([put(2 * MAX_BYTES)].iter()), 1);
    }

    #[test]
    fn what_is_written_is_told_by_topic() {
        let writes = ["a/1", "b/2", "a/3"].map(|name| (name.into(), Write::Delete)).into();
        let txn = Txn { writes, ..Txn::default() };
        assert_eq!(told(&[txn]), [("a/", "3:a/13:a/3".to_owned()), ("b/", "3:b/2".to_owned())]);
    }

    #[test]
    fn a_name_is_sent_once_with_what_is_expected_and_done() {
        let txn = Txn {
            at: Some(Timestamp::from_ms(300)),
            expect: vec![("a".into(), Expect::Absent), ("s".into(), Expect::At(5))],
            writes: vec![
                ("h".into(), Write::Put(Vec::new(), Stamp::Keep)),
                ("a".into(), Write::Put(vec![1], Stamp::New)),
                ("d".into(), Write::Delete),
            ],
        };
        let names: Vec<&str> = parts(&txn).map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["a", "s", "h", "d"]);
        let mut expected = Numbers::default();
        // Seen, the latest time, the lag, names; of the first: its time, names, and two numbers of each.
        [7, 300, 400, 4, 300, 4, 5, 0, 4, 5, 2, 0, 3, 0].into_iter().for_each(|number| expected.add(number));
        expected.add_time(None);
        expected.add(0);
        assert_eq!(numbers(&[txn, Txn::default()], 7), expected.packed());
    }

    #[test]
    fn a_name_that_is_expected_twice_is_written_once() {
        let expect = vec![("a".into(), Expect::Absent), ("a".into(), Expect::At(1))];
        let txn = Txn { at: None, expect, writes: vec![("a".into(), Write::Delete)] };
        let written: Vec<bool> = parts(&txn).map(|part| part.write.is_some()).collect();
        assert_eq!(written, [true, false]);
    }

    #[test]
    fn numbers_are_packed_as_an_array() {
        let mut numbers = Numbers::default();
        numbers.add(127);
        numbers.add(128);
        numbers.add_time(None);
        assert_eq!(numbers.packed(), [0xdd, 0, 0, 0, 3, 127, 0xcf, 0, 0, 0, 0, 0, 0, 0, 128, 0xc2]);
    }
}
