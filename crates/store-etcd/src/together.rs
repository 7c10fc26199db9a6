//! Which commits may share a transaction of etcd. Nothing here waits or talks to it.
//!
//! etcd compares for all of them before it writes for any. So that what comes of each is what would come of it if
//! they were carried out one after the other, none of them writes what another looks at or writes. Whoever
//! can't go along keeps its place among those who wait, and the first of them always goes.

use std::collections::{HashSet, VecDeque};

use bell_store::{Name, Txn, Write};

use crate::revision::PLACES;

/// Expectations, and writes, of a commit that goes together with others. Larger ones go alone.
pub(crate) const MAX_OPERATIONS: usize = 48;

/// Bytes of all of them, so that they stay far below the 1.5 MiB that etcd takes. One that has more goes alone.
const MAX_BYTES: usize = 256 << 10;

/// Takes those who go together next out of those who wait.
pub(crate) fn take<T>(waiting: &mut VecDeque<T>, txn: impl Fn(&T) -> &Txn) -> Vec<T> {
    let mut chosen = Vec::with_capacity(waiting.len().min(PLACES));
    let is_taken = {
        let mut party = Party::default();
        waiting.iter().map(|one| party.admits(txn(one))).collect::<Vec<bool>>()
    };
    let mut left = VecDeque::with_capacity(waiting.len());
    for (one, is_taken) in waiting.drain(..).zip(is_taken) {
        if is_taken { chosen.push(one) } else { left.push_back(one) }
    }
    *waiting = left;
    chosen
}

/// Those who go together.
#[derive(Default)]
struct Party<'a> {
    looked_at: HashSet<&'a Name>,
    written: HashSet<&'a Name>,
    count: usize,
    bytes: usize,
}

impl<'a> Party<'a> {
    /// Whether this one goes along.
    fn admits(&mut self, txn: &'a Txn) -> bool {
        let bytes = bytes(txn);
        let is_room = self.count < PLACES && self.bytes + bytes <= MAX_BYTES && is_small(txn);
        let expected = || txn.expect.iter().map(|(name, _)| name);
        let is_apart = || {
            let is_new = |name: &Name| !self.written.contains(name);
            expected().all(is_new) && txn.written().all(|name| is_new(name) && !self.looked_at.contains(name))
        };
        if self.count > 0 && !(is_room && is_apart()) {
            return false;
        }
        self.looked_at.extend(expected());
        self.written.extend(txn.written());
        // Beside one that is large there is room for nobody.
        self.bytes += if is_small(txn) { bytes } else { MAX_BYTES + 1 };
        self.count += 1;
        true
    }
}

fn is_small(txn: &Txn) -> bool {
    txn.expect.len().max(txn.writes.len()) <= MAX_OPERATIONS
}

fn bytes(txn: &Txn) -> usize {
    let value = |write: &Write| match write {
        Write::Put(value, _) => value.len(),
        Write::Delete => 0,
    };
    // A name that is expected is sent twice, to be compared and to be read.
    let expected: usize = txn.expect.iter().map(|(name, _)| 2 * name.as_str().len()).sum();
    let written: usize = txn.writes.iter().map(|(name, write)| name.as_str().len() + value(write)).sum();
    expected + written
}

#[cfg(test)]
mod tests {
    use bell_store::{Expect, Stamp};

    use super::*;

    fn txn(expect: &[&str], writes: &[&str]) -> Txn {
        Txn {
            at: None,
            expect: expect.iter().map(|name| ((*name).into(), Expect::Absent)).collect(),
            writes: writes.iter().map(|name| ((*name).into(), Write::Delete)).collect(),
        }
    }

    fn put(name: &str, bytes: usize) -> Txn {
        Txn { writes: vec![(name.into(), Write::Put(vec![0; bytes], Stamp::New))], ..Txn::default() }
    }

    /// Who goes with whom, by the numbers of those who waited.
    fn parties(waiting: impl IntoIterator<Item = Txn>) -> Vec<Vec<usize>> {
        let mut waiting: VecDeque<(usize, Txn)> = waiting.into_iter().enumerate().collect();
        let mut all = Vec::new();
        while !waiting.is_empty() {
            all.push(take(&mut waiting, |(_, txn)| txn).into_iter().map(|(number, _)| number).collect());
        }
        all
    }

    #[test]
    fn those_who_only_look_at_the_same_go_together() {
        let two = [txn(&["session", "a"], &["a"]), txn(&["session", "b"], &["b"])];
        assert_eq!(parties(two), [[0, 1]]);
    }

    #[test]
    fn nobody_goes_with_one_who_writes_what_it_looks_at_or_writes() {
        assert_eq!(parties([txn(&[], &["a"]), txn(&["a"], &["b"])]), [[0], [1]]);
        assert_eq!(parties([txn(&["a"], &["b"]), txn(&[], &["a"])]), [[0], [1]]);
        assert_eq!(parties([txn(&[], &["a"]), txn(&[], &["a"])]), [[0], [1]]);
    }

    #[test]
    fn those_behind_one_who_has_to_wait_go_along() {
        let waiting = [txn(&["a"], &["a"]), txn(&["a"], &["a"]), txn(&["b"], &["b"]), txn(&["a"], &["a"])];
        assert_eq!(parties(waiting), [vec![0, 2], vec![1], vec![3]]);
    }

    #[test]
    fn no_more_go_together_than_there_are_places() {
        let many = (0..=PLACES).map(|number| put(&number.to_string(), 1));
        assert_eq!(parties(many).iter().map(Vec::len).collect::<Vec<_>>(), [PLACES, 1]);
    }

    #[test]
    fn one_with_many_bytes_or_many_operations_goes_alone() {
        let names: Vec<String> = (0..=MAX_OPERATIONS).map(|number| number.to_string()).collect();
        let wide = txn(&[], &names.iter().map(String::as_str).collect::<Vec<_>>());
        let waiting = [put("a", 1), wide.clone(), put("b", MAX_BYTES), put("c", 1)];
        assert_eq!(parties(waiting), [vec![0, 3], vec![1], vec![2]]);
        assert_eq!(parties([wide, put("a", 1)]), [[0], [1]]);
        assert_eq!(parties([put("a", 2 * MAX_BYTES), put("b", 1)]), [[0], [1]]);
    }
}
