//! The stored state in memory: what all batches up to some place come to.

use std::collections::BTreeMap;
use std::ops::Bound;

use bell_store::record::{Name, Record, Revision, Snapshot, Timestamp};

use crate::batch::{self, Batch, Change, Epoch};

/// What all batches up to some place come to.
#[derive(Default, Debug)]
pub(crate) struct Image {
    records: BTreeMap<Name, Record>,
    /// The last revision.
    pub(crate) revision: Revision,
    /// The store's clock at the last batch.
    pub(crate) now: Timestamp,
    /// How the store's clock is read; `None` before the first batch of a new store.
    pub(crate) epoch: Option<Epoch>,
    live_bytes: u64,
}

impl Image {
    /// The empty image that a journal starts from.
    pub(crate) fn starting_at(revision: Revision, now: Timestamp) -> Self {
        Self { revision, now, ..Self::default() }
    }

    /// Whether the batch continues where this image stands.
    pub(crate) fn is_followed_by(&self, batch: &Batch) -> bool {
        batch.before == self.revision && batch.after >= batch.before && batch.now >= self.now
    }

    /// Takes a batch in.
    pub(crate) fn apply(&mut self, batch: Batch) {
        self.revision = batch.after;
        self.now = batch.now;
        for change in batch.changes {
            match change {
                Change::Put(name, record) => self.put(name, record),
                Change::Delete(name) => self.delete(&name),
                Change::Epoch(epoch) => self.epoch = Some(epoch),
            }
        }
    }

    fn put(&mut self, name: Name, record: Record) {
        self.delete(&name);
        self.live_bytes += batch::put_bytes(&name, &record.value);
        self.records.insert(name, record);
    }

    fn delete(&mut self, name: &Name) {
        if let Some(record) = self.records.remove(name) {
            self.live_bytes -= batch::put_bytes(name, &record.value);
        }
    }

    /// A record, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&Record> {
        self.records.get(name)
    }

    /// All records, by name.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&Name, &Record)> {
        self.records.iter()
    }

    /// Bytes that the records would take in a new journal.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Those of the named records that exist.
    pub(crate) fn read<'a>(&self, names: impl IntoIterator<Item = &'a Name>, now: Timestamp) -> Snapshot {
        let found = |name: &Name| Some((name.clone(), self.get(name.as_str())?.clone()));
        let records = names.into_iter().filter_map(found).collect();
        Snapshot { revision: self.revision, now, records, more: false }
    }

    /// A page of the records whose name starts with `prefix`.
    pub(crate) fn scan(&self, prefix: &str, from: &str, limit: usize, now: Timestamp) -> Snapshot {
        let start = Bound::Included(prefix.max(from));
        let mut matching = self
            .records
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(name, _)| name.as_str().starts_with(prefix));
        let page = matching.by_ref().take(limit);
        let records = page.map(|(name, record)| (name.clone(), record.clone())).collect();
        Snapshot { revision: self.revision, now, records, more: matching.next().is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Nonce;

    fn batch(before: Revision, changes: Vec<Change>) -> Batch {
        Batch { nonce: Nonce::default(), before, after: before + 1, now: Timestamp::from_ms(before), changes }
    }

    fn put(name: &str, value: &[u8]) -> Change {
        Change::Put(name.into(), Record { value: value.to_vec(), version: 1, stamp: 1 })
    }

    #[test]
    fn live_bytes_follow_what_is_put_replaced_and_deleted() {
        let mut image = Image::default();
        image.apply(batch(0, vec![put("a", b"long value"), put("b", b"1")]));
        image.apply(batch(1, vec![put("a", b"2")]));
        let replaced = image.live_bytes();
        assert_eq!(replaced, batch::put_bytes(&"a".into(), b"2") + batch::put_bytes(&"b".into(), b"1"));
        image.apply(batch(2, vec![Change::Delete("a".into()), Change::Delete("b".into())]));
        assert_eq!(image.live_bytes(), 0);
    }

    #[test]
    fn a_batch_that_was_left_out_or_repeated_does_not_follow() {
        let mut image = Image::default();
        image.apply(batch(0, vec![put("a", b"1")]));
        assert!(image.is_followed_by(&batch(1, vec![])));
        assert!(!image.is_followed_by(&batch(0, vec![])));
        assert!(!image.is_followed_by(&batch(2, vec![])));
    }

    #[test]
    fn a_page_says_that_there_is_more() {
        let mut image = Image::default();
        image.apply(batch(0, vec![put("p/1", b""), put("p/2", b""), put("q", b"")]));
        let page = image.scan("p/", "", 1, Timestamp::default());
        assert_eq!((page.records.len(), page.more), (1, true));
        let rest = image.scan("p/", "p/2", 5, Timestamp::default());
        assert_eq!((rest.records.len(), rest.more), (1, false));
    }
}
