//! Transactions that waited together, as the script takes them, and what it says of each.
//!
//! The script judges them one after the other, so each succeeds or conflicts on its own and has a revision of
//! its own; what all of them have to go through anyway is done once.

use std::collections::HashMap;

use bell_store::txn::MAX_LAG;
use bell_store::{Expect, Name, Revision, Snapshot, Stamp, Timestamp, Txn, Write, topic};

use crate::listened::Listened;
use crate::notice;
use crate::request::Request;

/// Transactions sent together at the most. What they share is well shared by then, and the server does
/// nothing else meanwhile.
pub(crate) const MAX_TXNS: usize = 64;

/// Beyond this many bytes a batch is sent as it is: the first of its callers waits for the last.
const MAX_BYTES: usize = 1 << 20;

/// Beyond this many names too: Lua passes fewer than 8,000 arguments to a call, two of them for each name.
const MAX_NAMES: usize = 2_000;

/// What the numbers of most batches fit into.
const COMMON_BYTES: usize = 256;

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

/// What the one who commits knows.
pub(crate) struct Known<'a> {
    /// The highest revision seen.
    pub(crate) seen: Revision,
    pub(crate) listened: &'a Listened,
    pub(crate) channel: &'a str,
}

/// Adds transactions to the script's arguments. What they write is told to those who listen.
pub(crate) fn add(request: &mut Request, txns: &[Txn], known: &Known<'_>) {
    let (numbers, names) = numbers(txns, known.seen);
    request.arg(numbers);
    for name in names {
        request.arg(name);
    }
    for (_, write) in txns.iter().flat_map(|txn| &txn.writes) {
        if let Write::Put(value, _) = write {
            request.arg(value);
        }
    }
    for (topic, message) in told(txns, known.listened) {
        request.arg(topic_channel(known.channel, topic)).arg(message);
    }
}

/// Where among the found records the first name is: behind the head, which Lua counts as the first.
const FIRST_PLACE: usize = 2;

/// The numbers that the script takes, and the names that they are about, each once.
fn numbers(txns: &[Txn], seen: Revision) -> (Vec<u8>, Vec<&str>) {
    let mut numbers = Vec::with_capacity(COMMON_BYTES);
    let mut names = Names::default();
    numbers.extend(seen.to_be_bytes());
    numbers.extend(time(txns.iter().filter_map(|txn| txn.at).max()));
    numbers.extend(u32::try_from(MAX_LAG.as_millis()).unwrap_or(u32::MAX).to_be_bytes());
    let count_at = numbers.len();
    numbers.extend([0; size_of::<u32>()]);
    for txn in txns {
        let puts = txn.writes.iter().filter(|(_, write)| matches!(write, Write::Put(..))).count();
        numbers.extend(time(txn.at));
        for count in [txn.expect.len(), txn.writes.len(), puts] {
            numbers.extend(short(count));
        }
        for (name, expect) in &txn.expect {
            let version = match expect {
                Expect::Absent => 0,
                Expect::At(version) => *version,
            };
            numbers.extend(names.place(name));
            numbers.extend(version.to_be_bytes());
        }
        for (name, write) in &txn.writes {
            numbers.extend(names.place(name));
            numbers.push(match write {
                Write::Put(_, Stamp::New) => 1,
                Write::Put(_, Stamp::Keep) => 2,
                Write::Delete => 3,
            });
        }
    }
    let count = u32::try_from(names.all.len()).unwrap_or(u32::MAX);
    numbers[count_at..][..size_of::<u32>()].copy_from_slice(&count.to_be_bytes());
    (numbers, names.all)
}

/// So many names are sooner looked through than put into a table. A commit that takes or gives back a lock has three.
const FEW_NAMES: usize = 8;

/// Names in the order in which they come up.
#[derive(Default)]
struct Names<'a> {
    all: Vec<&'a str>,
    /// Where each is, once they are many.
    places: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn place(&mut self, name: &'a Name) -> [u8; 2] {
        let name = name.as_str();
        let known = match self.places.is_empty() {
            true => self.all.iter().position(|other| *other == name),
            false => self.places.get(name).copied(),
        };
        short(FIRST_PLACE + known.unwrap_or_else(|| self.add(name)))
    }

    fn add(&mut self, name: &'a str) -> usize {
        let place = self.all.len();
        self.all.push(name);
        if self.all.len() > FEW_NAMES {
            let unlisted = self.all.iter().enumerate().skip(self.places.len());
            self.places.extend(unlisted.map(|(place, name)| (*name, place)));
        }
        place
    }
}

/// A time, or zero. The first millisecond of 1970 is as far gone as the second.
fn time(at: Option<Timestamp>) -> [u8; 8] {
    at.map_or(0, |at| at.as_ms().max(1)).to_be_bytes()
}

/// A count of names: by far within two bytes, see [`MAX_NAMES`].
fn short(count: usize) -> [u8; 2] {
    u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes()
}

/// The channel of a topic.
pub(crate) fn topic_channel(channel: &str, topic: &str) -> String {
    format!("{channel}:{topic}")
}

/// What transactions have to tell, by topic. Told also of those that conflict, if another of them does not: whoever
/// hears it looks once for nothing.
fn told<'a>(txns: &'a [Txn], listened: &Listened) -> Vec<(&'a str, String)> {
    let mut told: Vec<(&str, String)> = Vec::new();
    for name in txns.iter().flat_map(Txn::written).map(Name::as_str) {
        let topic = topic::of(name);
        if !listened.includes(topic) {
            continue;
        }
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
    use redis::Value;

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

    fn listened(topics: &[&str]) -> Listened {
        let said =
            ["0123456789abcdef"].iter().chain(topics).map(|word| Value::BulkString(word.as_bytes().to_vec()));
        Listened::parse(&said.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_written_is_told_by_topic_to_those_who_listen() {
        let writes = ["a/1", "b/2", "a/3", "c/4"].map(|name| (name.into(), Write::Delete)).into();
        let txns = [Txn { writes, ..Txn::default() }];
        let (a, b) = (("a/", "3:a/13:a/3".to_owned()), ("b/", "3:b/2".to_owned()));
        assert_eq!(told(&txns, &listened(&["b/", "a/"])), [a.clone(), b]);
        assert_eq!(told(&txns, &listened(&["a/", "d/"])), [a]);
        assert_eq!(told(&txns, &listened(&["*"])).len(), 3);
        assert_eq!(told(&txns, &listened(&[])), []);
    }

    #[test]
    fn a_name_is_sent_once_and_counted_from_behind_the_head() {
        let first = Txn {
            at: Some(Timestamp::from_ms(300)),
            expect: vec![("a".into(), Expect::Absent), ("s".into(), Expect::At(5))],
            writes: vec![
                ("h".into(), Write::Put(Vec::new(), Stamp::Keep)),
                ("a".into(), Write::Put(vec![1], Stamp::New)),
                ("d".into(), Write::Delete),
            ],
        };
        let second = Txn { expect: vec![("d".into(), Expect::At(7))], ..Txn::default() };
        let txns = [first, second];
        let (numbers, names) = numbers(&txns, 9);
        assert_eq!(names, ["a", "s", "h", "d"]);
        let long = |number: u64| number.to_be_bytes().to_vec();
        let places = |places: &[u8]| places.iter().flat_map(|place| [0, *place]).collect();
        let expected: [Vec<u8>; 15] = [
            // Seen, the latest time, the lag, names.
            long(9),
            long(300),
            vec![0, 0, 1, 144],
            vec![0, 0, 0, 4],
            // Decided for, expectations, writes, puts; the former; the latter.
            long(300),
            places(&[2, 3, 2]),
            places(&[2]),
            long(0),
            places(&[3]),
            long(5),
            vec![0, 4, 2, 0, 2, 1, 0, 5, 3],
            // The other.
            long(0),
            places(&[1, 0, 0]),
            places(&[5]),
            long(7),
        ];
        assert_eq!(numbers, expected.concat());
    }

    #[test]
    fn however_many_names_there_are_each_has_one_place() {
        for count in [1, FEW_NAMES, FEW_NAMES + 1, 3 * FEW_NAMES] {
            let names: Vec<Name> =
                (0..count).map(|number| format!("name/{number}").as_str().into()).collect();
            let mut places = Names::default();
            // Each comes up twice, the second time in the other order.
            let first: Vec<_> = names.iter().map(|name| places.place(name)).collect();
            let mut second: Vec<_> = names.iter().rev().map(|name| places.place(name)).collect();
            second.reverse();
            let expected: Vec<_> = (0..count).map(|place| short(FIRST_PLACE + place)).collect();
            assert_eq!((&first, &second, places.all.len()), (&expected, &expected, count));
        }
    }

    #[test]
    fn no_time_is_not_the_first_millisecond() {
        assert_eq!(time(None), [0; 8]);
        assert_ne!(time(Some(Timestamp::from_ms(0))), [0; 8]);
    }
}
