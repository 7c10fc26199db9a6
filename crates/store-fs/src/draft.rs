//! What becomes of the transactions of one batch, decided in their order, each on its own.
//!
//! Nothing is read or written here. A transaction sees what those before it in the batch will leave behind; that
//! is answered only once all of it is durable.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bell_store::record::{Name, Record, Revision, Snapshot, Timestamp, Version};
use bell_store::txn::{Committed, Outcome, Txn};

use crate::batch::{Batch, Change, Nonce};
use crate::image::Image;

/// A batch in the making.
pub(crate) struct Draft<'a> {
    image: &'a Image,
    now: Timestamp,
    revision: Revision,
    changes: Vec<Change>,
    /// For each record written in this batch, the place of its last change.
    latest: HashMap<Name, usize>,
}

impl<'a> Draft<'a> {
    /// An empty batch that continues `image` at the moment `now`.
    pub(crate) fn new(image: &'a Image, now: Timestamp) -> Self {
        Self { image, now, revision: image.revision, changes: Vec::new(), latest: HashMap::new() }
    }

    /// Decides what becomes of a transaction that has waited for so long.
    pub(crate) fn decide(&mut self, txn: Txn, waited: Duration) -> Outcome {
        let holds = txn.time_holds(self.called(&txn, waited));
        if !holds || !txn.expectations_hold(|name| self.version(name)) {
            return Outcome::Conflict(self.read(txn.expect.iter().map(|(name, _)| name)));
        }
        if !txn.writes.is_empty() {
            self.revision += 1;
        }
        for (name, write) in txn.writes {
            let stamp = self.get(&name).map(|record| record.stamp);
            self.latest.insert(name.clone(), self.changes.len());
            self.changes.push(match write.leaves(stamp, self.revision) {
                Some(record) => Change::Put(name, record),
                None => Change::Delete(name),
            });
        }
        Outcome::Committed(Committed { revision: self.revision, now: self.now })
    }

    /// The batch to append. `None`: there is nothing to write.
    pub(crate) fn into_batch(self, nonce: Nonce) -> Option<Batch> {
        let (before, after) = (self.image.revision, self.revision);
        (after > before).then_some(Batch { nonce, before, after, now: self.now, changes: self.changes })
    }

    /// The store's clock when the transaction was handed in.
    ///
    /// The server's time stamps are a few milliseconds coarse, so that the moment may seem to lie before the
    /// time the caller has just read. Only a time that is still ahead of the clock now was really ahead.
    fn called(&self, txn: &Txn, waited: Duration) -> Timestamp {
        let called = self.now - waited;
        txn.at.map_or(called, |at| called.max(at.min(self.now)))
    }

    fn get(&self, name: &Name) -> Option<&Record> {
        match self.latest.get(name).and_then(|place| self.changes.get(*place)) {
            Some(Change::Put(_, record)) => Some(record),
            Some(_) => None,
            None => self.image.get(name.as_str()),
        }
    }

    fn version(&self, name: &Name) -> Version {
        self.get(name).map_or(0, |record| record.version)
    }

    fn read<'b>(&self, names: impl Iterator<Item = &'b Name>) -> Snapshot {
        let found = |name: &Name| Some((name.clone(), self.get(name)?.clone()));
        let records: BTreeMap<Name, Record> = names.filter_map(found).collect();
        Snapshot { revision: self.revision, now: self.now, records, more: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::txn::{Expect, MAX_LAG, Stamp, Write};

    const NOW: Timestamp = Timestamp::from_ms(10_000);

    fn create(name: &str) -> Txn {
        Txn {
            at: None,
            expect: vec![(name.into(), Expect::Absent)],
            writes: vec![(name.into(), Write::Put(b"v".to_vec(), Stamp::New))],
        }
    }

    fn at(at: Timestamp) -> Txn {
        Txn { at: Some(at), ..create("a") }
    }

    fn is_conflict(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Conflict(_))
    }

    #[test]
    fn each_transaction_succeeds_or_conflicts_on_its_own_and_sees_those_before_it() {
        let image = Image::starting_at(7, NOW);
        let mut draft = Draft::new(&image, NOW);
        let first = draft.decide(create("a"), Duration::ZERO);
        let second = draft.decide(create("a"), Duration::ZERO);
        let third = draft.decide(create("b"), Duration::ZERO);
        assert_eq!(first, Outcome::Committed(Committed { revision: 8, now: NOW }));
        let Outcome::Conflict(seen) = second else { panic!("both created it") };
        assert_eq!((seen.version("a"), seen.revision), (8, 8));
        assert_eq!(third, Outcome::Committed(Committed { revision: 9, now: NOW }));
        let batch = draft.into_batch(Nonce::default()).unwrap();
        assert_eq!((batch.before, batch.after, batch.changes.len()), (7, 9, 2));
    }

    #[test]
    fn a_record_deleted_in_the_batch_is_absent_for_the_next() {
        let image = Image::default();
        let mut draft = Draft::new(&image, NOW);
        draft.decide(create("a"), Duration::ZERO);
        let delete = Txn { writes: vec![("a".into(), Write::Delete)], ..Txn::default() };
        draft.decide(delete, Duration::ZERO);
        let again = draft.decide(create("a"), Duration::ZERO);
        assert_eq!(again, Outcome::Committed(Committed { revision: 3, now: NOW }));
    }

    #[test]
    fn a_batch_of_conflicts_and_checks_writes_nothing() {
        let image = Image::default();
        let mut draft = Draft::new(&image, NOW);
        let missing = Txn { expect: vec![("a".into(), Expect::At(3))], ..create("b") };
        assert!(is_conflict(&draft.decide(missing, Duration::ZERO)));
        assert!(!is_conflict(&draft.decide(Txn::default(), Duration::ZERO)));
        assert_eq!(draft.into_batch(Nonce::default()), None);
    }

    #[test]
    fn waiting_in_the_queue_does_not_make_a_decision_old() {
        let image = Image::default();
        let waited = MAX_LAG * 3;
        assert!(!is_conflict(&Draft::new(&image, NOW).decide(at(NOW - waited), waited)));
        assert!(is_conflict(&Draft::new(&image, NOW).decide(at(NOW - waited), Duration::ZERO)));
    }

    #[test]
    fn a_time_read_a_moment_ago_holds_on_a_coarse_clock_and_one_ahead_of_it_does_not() {
        let image = Image::default();
        let waited = Duration::from_millis(3);
        assert!(!is_conflict(&Draft::new(&image, NOW).decide(at(NOW), waited)));
        let ahead = NOW + Duration::from_millis(1);
        assert!(is_conflict(&Draft::new(&image, NOW).decide(at(ahead), waited)));
    }
}
