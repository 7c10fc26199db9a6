//! Transactions that waited together, as the script takes them, and what it says of each.
//!
//! The script judges them one after the other, so each succeeds or conflicts on its own and has a revision of
//! its own; what all of them have to go through anyway is done once.

use bell_store::txn::MAX_LAG;
use bell_store::{Expect, Name, Revision, Snapshot, Stamp, Timestamp, Txn, Write, topic};
use redis::Cmd;

use crate::fault::Fault;
use crate::notice;
use crate::reply::{Reply, version_text};

/// Transactions sent together at the most. What they share is well shared by then, and the server does
/// nothing else meanwhile.
pub(crate) const MAX_TXNS: usize = 64;

/// Beyond this many bytes a batch is sent as it is: the first of its callers waits for the last.
const MAX_BYTES: usize = 1 << 20;

/// How many of these to send together: at least one.
pub(crate) fn size<'a>(txns: impl Iterator<Item = &'a Txn>) -> usize {
    let mut bytes = 0;
    let fits = |txn: &&Txn| {
        let is_room = bytes < MAX_BYTES;
        bytes += bytes_of(txn);
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

/// The time that the store's clock must be showing at least, as far as those who decided know.
pub(crate) fn latest(txns: &[Txn]) -> String {
    time(txns.iter().filter_map(|txn| txn.at).max())
}

/// The lag that is allowed, in milliseconds.
pub(crate) fn max_lag_ms() -> u64 {
    u64::try_from(MAX_LAG.as_millis()).unwrap_or(u64::MAX)
}

/// Adds a transaction to the script's arguments. What it writes is told on `channel` and the names' topics.
pub(crate) fn add(request: &mut Cmd, txn: &Txn, channel: &str) {
    let is_expected = |name: &Name| txn.expect.iter().any(|(expected, _)| expected == name);
    // The script finds the stamp to keep among what it looks at.
    let kept = || {
        let keeps = |write: &Write| matches!(write, Write::Put(_, Stamp::Keep));
        txn.writes
            .iter()
            .filter(move |(name, write)| keeps(write) && !is_expected(name))
            .map(|(name, _)| name)
    };
    let deleted = || txn.writes.iter().filter(|(_, write)| *write == Write::Delete).map(|(name, _)| name);
    let told = told(txn);
    request.arg(time(txn.at)).arg(txn.expect.len() + kept().count()).arg(txn.expect.len());
    request.arg(txn.writes.len() - deleted().count()).arg(deleted().count()).arg(told.len());
    for name in txn.expect.iter().map(|(name, _)| name).chain(kept()) {
        request.arg(name.as_str());
    }
    for (_, expect) in &txn.expect {
        request.arg(version_text(match expect {
            Expect::Absent => 0,
            Expect::At(version) => *version,
        }));
    }
    for (name, write) in &txn.writes {
        match write {
            Write::Put(value, Stamp::New) => request.arg(name.as_str()).arg("new").arg(value),
            Write::Put(value, Stamp::Keep) => request.arg(name.as_str()).arg("keep").arg(value),
            Write::Delete => continue,
        };
    }
    for name in deleted() {
        request.arg(name.as_str());
    }
    for (topic, message) in told {
        request.arg(topic_channel(channel, topic)).arg(message);
    }
}

/// The channel of a topic.
pub(crate) fn topic_channel(channel: &str, topic: &str) -> String {
    format!("{channel}:{topic}")
}

/// What a transaction has to tell, by topic.
fn told(txn: &Txn) -> Vec<(&str, String)> {
    let mut told: Vec<(&str, String)> = Vec::new();
    for name in txn.written().map(Name::as_str) {
        let topic = topic::of(name);
        let place = told.iter().position(|(other, _)| *other == topic).unwrap_or_else(|| {
            told.push((topic, String::new()));
            told.len() - 1
        });
        notice::tell(&mut told[place].1, name);
    }
    told
}

fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.as_ms().to_string()).unwrap_or_default()
}

/// What came of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ended {
    Committed(Revision),
    /// With the expected records as they were, and the time in the answer.
    Conflict(Snapshot),
}

/// What came of each transaction, in their order.
pub(crate) fn ended(reply: &Reply, txns: &[Txn]) -> Vec<Result<Ended, Fault>> {
    let each = |(place, txn): (usize, &Txn)| {
        let expected: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
        reply.ended(place, &expected)
    };
    txns.iter().enumerate().map(each).collect()
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
        assert_eq!(told(&txn), [("a/", "3:a/13:a/3".to_owned()), ("b/", "3:b/2".to_owned())]);
    }

    #[test]
    fn the_latest_time_is_that_of_any() {
        let at = |ms| Txn { at: Some(Timestamp::from_ms(ms)), ..Txn::default() };
        assert_eq!(latest(&[at(3), Txn::default(), at(7), at(5)]), "7");
        assert_eq!(latest(&[Txn::default()]), "");
    }
}
