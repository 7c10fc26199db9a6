//! Removing what runs have written, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bell_coord::Coord;
use bell_coord::space::Space;
use bell_store::info::Limits;
use bell_store::{Error, Kind, Name, Store, Txn, Write};

use crate::site::SCOPE;

/// Where runs on two machines find each other; they look after it themselves.
pub(crate) const PEER_SCOPE: &str = "verify-peer";

/// Nothing found this often in a row means that there is nothing: what was on its way has arrived by then.
const LOOKS: usize = 2;
const BETWEEN: Duration = Duration::from_millis(30);

/// The scopes of all runs that have records in the store.
pub(crate) async fn scopes(store: &Arc<dyn Store>) -> Result<Vec<String>, Error> {
    let mut found = BTreeSet::new();
    let mut from = String::new();
    loop {
        let page = store.scan(&format!("@{SCOPE}"), &from, 1).await?;
        let Some(name) = page.records.keys().next() else { break };
        let Some((scope, _)) = name.as_str().split_once('/') else {
            // Not of this make.
            from = format!("{name}\u{1}");
            continue;
        };
        // The first name behind the scope: '0' comes after '/'.
        from = format!("{scope}0");
        found.insert(scope.trim_start_matches('@').to_owned());
    }
    found.remove(PEER_SCOPE);
    Ok(found.into_iter().collect())
}

/// Removes every record of a scope. Answers how many.
pub(crate) async fn remove(store: &Arc<dyn Store>, scope: &str) -> Result<usize, Error> {
    let space = Space::root().scoped(scope).map_err(|bad| Error::new(Kind::Invalid, bad.to_string()))?;
    // Dead sessions are ended first, so that nothing of them is left outside of the store either.
    let _ = Coord::new(Arc::clone(store)).scoped(space).sweep().await;
    let prefix = format!("@{scope}/");
    let (mut removed, mut empty) = (0, 0);
    while empty < LOOKS {
        let page = store.scan(&prefix, "", Limits::CONTRACT.txn_ops).await?;
        if page.records.is_empty() {
            empty += 1;
            tokio::time::sleep(BETWEEN).await;
            continue;
        }
        empty = 0;
        removed += page.records.len();
        for name in page.records.keys() {
            if let Some(session) = name.as_str().strip_prefix(&format!("{prefix}session/")) {
                store.presence().forget(session);
            }
        }
        delete(store, page.records.into_keys()).await?;
    }
    Ok(removed)
}

/// Removes these records.
pub(crate) async fn delete(store: &Arc<dyn Store>, names: impl Iterator<Item = Name>) -> Result<(), Error> {
    let writes = names.map(|name| (name, Write::Delete)).collect();
    store.commit(Txn { writes, ..Txn::default() }).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::Stamp;
    use bell_store::memory::Memory;

    #[tokio::test]
    async fn only_the_records_of_the_scope_are_removed() {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let theirs = ["@verify", "@verify-a-/x", "@verify-a0/x", "@verify-peer/seat", "lock/verify-a", "z"];
        let ours = ["@verify-a/data/1", "@verify-a/lock/x://y", "@verify-a/z"];
        let put = |name: &&str| (Name::from(*name), Write::Put(b"x".to_vec(), Stamp::New));
        let writes = theirs.iter().chain(&ours).map(put).collect();
        store.commit(Txn { writes, ..Txn::default() }).await.unwrap();
        assert_eq!(scopes(&store).await.unwrap(), ["verify-a", "verify-a-", "verify-a0"]);
        assert_eq!(remove(&store, "verify-a").await.unwrap(), ours.len());
        let left = store.scan("", "", 100).await.unwrap().records;
        assert_eq!(left.keys().map(Name::as_str).collect::<Vec<_>>(), theirs);
    }
}
