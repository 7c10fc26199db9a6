//! Guarded values in any store: what is behind the HTTP sink, and what drills and proofs write to.
//!
//! A value and the highest fence it has seen are one record, so they are written in one commit. Values lie
//! under a prefix of their own; nothing else of the store is touched.

use std::sync::Arc;

use bell_core::lock::Fence;
use bell_store::{Error, Expect, Kind, Name, Outcome, Record, Stamp, Store, Txn, Write};

use super::Stale;

/// Bytes of the fence in front of the value.
const FENCE_BYTES: usize = size_of::<u64>();

/// Guarded values under one prefix of a store.
#[derive(Clone)]
pub struct StoreGuard {
    store: Arc<dyn Store>,
    prefix: String,
}

/// A guarded value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guarded {
    /// The highest fence that the value has seen: that of its last write.
    pub fence: Fence,
    /// What was written.
    pub value: Vec<u8>,
}

/// Why a guarded write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The fence is too old. Nothing was written.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The store refused, and nothing was written; or, if [`Kind::Unknown`], it may have been.
    #[error(transparent)]
    Store(#[from] Error),
}

impl StoreGuard {
    /// Guards the values whose records start with `prefix`.
    pub fn new(store: Arc<dyn Store>, prefix: impl Into<String>) -> Self {
        Self { store, prefix: prefix.into() }
    }

    /// Replaces the value of `resource` and remembers `fence`, in one commit.
    ///
    /// Dropped half-way, it has happened or not, never half.
    ///
    /// # Errors
    /// [`GuardError::Stale`] if a later holder has written; then nothing was written.
    pub async fn write(&self, resource: &str, fence: Fence, value: &[u8]) -> Result<(), GuardError> {
        let name = self.name(resource);
        let put = Write::Put([&fence.0.to_be_bytes(), value].concat(), Stamp::Keep);
        let mut expect = Expect::Absent;
        // Each further round is one in which another writer got through.
        loop {
            let txn = Txn {
                at: None,
                expect: vec![(name.clone(), expect)],
                writes: vec![(name.clone(), put.clone())],
            };
            let found = match self.store.commit(txn).await? {
                Outcome::Committed(_) => return Ok(()),
                Outcome::Conflict(found) => found,
            };
            expect = match found.records.get(&name) {
                None => Expect::Absent,
                Some(record) => {
                    let seen = guarded(record)?.fence;
                    if fence < seen {
                        return Err(Stale::refuse(fence, seen).into());
                    }
                    Expect::At(record.version)
                }
            };
        }
    }

    /// What was last written to `resource`, if anything was.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read(&self, resource: &str) -> Result<Option<Guarded>, Error> {
        let name = self.name(resource);
        let found = self.store.read(std::slice::from_ref(&name)).await?;
        found.records.get(&name).map(guarded).transpose()
    }

    /// Forgets `resource` and its fence: a stale writer could write again. For values that nobody will use.
    ///
    /// # Errors
    /// If the store refuses.
    pub async fn forget(&self, resource: &str) -> Result<(), Error> {
        let writes = vec![(self.name(resource), Write::Delete)];
        self.store.commit(Txn { writes, ..Txn::default() }).await?;
        Ok(())
    }

    fn name(&self, resource: &str) -> Name {
        format!("{}{resource}", self.prefix).into()
    }
}

fn guarded(record: &Record) -> Result<Guarded, Error> {
    match record.value.split_first_chunk::<FENCE_BYTES>() {
        Some((fence, value)) => {
            Ok(Guarded { fence: Fence(u64::from_be_bytes(*fence)), value: value.to_vec() })
        }
        None => Err(Error::new(Kind::Corrupt, "read a guarded value: it has no fence")
            .hint("Something else has written under this prefix; choose another.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::memory::Memory;

    fn guard() -> StoreGuard {
        StoreGuard::new(Arc::new(Memory::new()), "guarded/")
    }

    #[tokio::test]
    async fn a_write_is_accepted_with_the_highest_fence_and_refused_with_a_lower_one() {
        let guard = guard();
        assert_eq!(guard.read("a").await.unwrap(), None);
        for fence in [5, 5, 7] {
            guard.write("a", Fence(fence), format!("by {fence}").as_bytes()).await.unwrap();
        }
        let stale = guard.write("a", Fence(6), b"late").await.unwrap_err();
        assert!(matches!(stale, GuardError::Stale(Stale { given: Fence(6), seen: Fence(7) })), "{stale}");
        let kept = guard.read("a").await.unwrap().unwrap();
        assert_eq!(kept, Guarded { fence: Fence(7), value: b"by 7".to_vec() });
    }

    #[tokio::test]
    async fn writers_at_once_leave_the_value_of_the_highest_fence() {
        let guard = guard();
        let mut writers = tokio::task::JoinSet::new();
        for fence in 1..=64_u64 {
            let guard = guard.clone();
            writers.spawn(async move { guard.write("a", Fence(fence), &fence.to_be_bytes()).await });
        }
        writers.join_all().await;
        let kept = guard.read("a").await.unwrap().unwrap();
        assert_eq!(kept, Guarded { fence: Fence(64), value: 64_u64.to_be_bytes().to_vec() });
    }

    #[tokio::test]
    async fn what_something_else_wrote_there_is_not_taken_for_a_value() {
        let store = Arc::new(Memory::new());
        let put = Write::Put(b"theirs".to_vec(), Stamp::New);
        store.commit(Txn { writes: vec![("g/a".into(), put)], ..Txn::default() }).await.unwrap();
        let guard = StoreGuard::new(store, "g/");
        assert_eq!(guard.read("a").await.unwrap_err().kind(), Kind::Corrupt);
        assert!(guard.write("a", Fence(1), b"x").await.is_err());
    }
}
