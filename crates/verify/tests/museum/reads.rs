//! Flaws of reading and watching.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bell_store::clock::boottime;
use bell_store::{Name, Result, Snapshot, Store, Watch};

use crate::exhibit::Flaw;

const REMEMBERED_FOR: Duration = Duration::from_millis(300);

/// Remembers what it has read for too long.
#[derive(Default)]
pub(crate) struct Stale {
    read: Mutex<HashMap<Vec<Name>, (Duration, Snapshot)>>,
}

#[async_trait]
impl Flaw for Stale {
    async fn read(&self, store: &Arc<dyn Store>, names: &[Name]) -> Result<Snapshot> {
        let remembered = self.read.lock().unwrap().get(names).cloned();
        if let Some((at, snapshot)) = remembered
            && boottime() - at < REMEMBERED_FOR
        {
            return Ok(snapshot);
        }
        let snapshot = store.read(names).await?;
        self.read.lock().unwrap().insert(names.to_vec(), (boottime(), snapshot.clone()));
        Ok(snapshot)
    }
}

/// Never tells that anything has changed.
pub(crate) struct Deaf;

#[async_trait]
impl Flaw for Deaf {
    async fn changed(&self, _store: &Arc<dyn Store>, _watch: &Watch) -> Result<()> {
        std::future::pending().await
    }
}
