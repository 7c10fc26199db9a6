//! Flaws of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bell_store::{Committed, Expect, Name, Outcome, Result, Store, Txn};

use crate::exhibit::Flaw;

/// Commits whatever it is given.
pub(crate) struct Unchecked;

#[async_trait]
impl Flaw for Unchecked {
    async fn commit(&self, store: &Arc<dyn Store>, txn: Txn) -> Result<Outcome> {
        store.commit(Txn { expect: Vec::new(), ..txn }).await
    }
}

/// Looks whether everything is as expected, and commits a moment later.
pub(crate) struct CheckThenAct;

#[async_trait]
impl Flaw for CheckThenAct {
    async fn commit(&self, store: &Arc<dyn Store>, txn: Txn) -> Result<Outcome> {
        let seen = look(store, &txn).await?;
        if let Some(conflict) = seen {
            return Ok(conflict);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        store.commit(Txn { expect: Vec::new(), ..txn }).await
    }
}

/// Does not look at what guarded values have seen.
pub(crate) struct Unguarded;

#[async_trait]
impl Flaw for Unguarded {
    async fn commit(&self, store: &Arc<dyn Store>, mut txn: Txn) -> Result<Outcome> {
        txn.expect.retain(|(name, _)| !name.as_str().contains("/guard/"));
        store.commit(txn).await
    }
}

/// Takes any version for the expected one: «it is there» instead of «it is the one I saw».
pub(crate) struct AnyVersion;

#[async_trait]
impl Flaw for AnyVersion {
    async fn commit(&self, store: &Arc<dyn Store>, mut txn: Txn) -> Result<Outcome> {
        let names: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
        let seen = store.read(&names).await?;
        for (name, expect) in &mut txn.expect {
            if let (Expect::At(version), Some(record)) = (expect, seen.records.get(name)) {
                *version = record.version;
            }
        }
        store.commit(txn).await
    }
}

/// Writes one record after the other.
pub(crate) struct Piecemeal;

#[async_trait]
impl Flaw for Piecemeal {
    async fn commit(&self, store: &Arc<dyn Store>, txn: Txn) -> Result<Outcome> {
        let mut rest = txn.writes.into_iter();
        let first = Txn { writes: rest.next().into_iter().collect(), expect: txn.expect, at: txn.at };
        let mut outcome = store.commit(first).await?;
        for write in rest {
            if matches!(outcome, Outcome::Committed(_)) {
                outcome = store.commit(Txn { writes: vec![write], ..Txn::default() }).await?;
            }
        }
        Ok(outcome)
    }
}

/// Acknowledges at once and writes a little later.
pub(crate) struct WriteBehind;

#[async_trait]
impl Flaw for WriteBehind {
    async fn commit(&self, store: &Arc<dyn Store>, txn: Txn) -> Result<Outcome> {
        // Only plain records: locks would not get as far as being checked.
        if !txn.written().any(|name| name.as_str().contains("/data/")) {
            return store.commit(txn).await;
        }
        let seen = store.read(&[]).await?;
        let store = Arc::clone(store);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            store.commit(txn).await
        });
        Ok(Outcome::Committed(Committed { revision: seen.revision + 1, now: seen.now }))
    }
}

/// Acknowledges every commit, and forgets every seventh of plain records.
#[derive(Default)]
pub(crate) struct Forgetful {
    commits: AtomicU64,
}

#[async_trait]
impl Flaw for Forgetful {
    async fn commit(&self, store: &Arc<dyn Store>, txn: Txn) -> Result<Outcome> {
        let is_plain = txn.written().any(|name| name.as_str().contains("/data/"));
        if !is_plain || !(self.commits.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(7) {
            return store.commit(txn).await;
        }
        let seen = store.read(&[]).await?;
        Ok(Outcome::Committed(Committed { revision: seen.revision + 1, now: seen.now }))
    }
}

/// The conflict, if something is not as expected.
async fn look(store: &Arc<dyn Store>, txn: &Txn) -> Result<Option<Outcome>> {
    let names: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
    let seen = store.read(&names).await?;
    let holds = txn.expectations_hold(|name| seen.version(name.as_str()));
    Ok(if holds { None } else { Some(Outcome::Conflict(seen)) })
}
