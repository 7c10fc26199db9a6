//! Bellwether, as programs use it: `Locks::lock` and `Held::release`, sessions sharing a store.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bell_locks::locks::this_process;
use bell_locks::{Ask, Held, Key, LockBackend, Locks};

use super::hand::{AnyHand, Hand};

/// Longer than any wait for a turn.
const PATIENCE: Duration = Duration::from_secs(60);

struct Ours {
    locks: Locks,
    held: Option<Held>,
}

/// Hands on the store at `url`, dealt out to so many handles of it.
pub(super) async fn hands(url: &str, hands: usize, handles: usize) -> Result<Vec<AnyHand>> {
    let mut backends: Vec<Arc<dyn LockBackend>> = Vec::new();
    for _ in 0..handles.min(hands) {
        backends.push(bell_locks::open(url).await?);
    }
    let mut all: Vec<AnyHand> = Vec::new();
    for backend in backends.iter().cycle().take(hands) {
        let locks = Locks::new(Arc::clone(backend), this_process())?;
        all.push(Box::new(Ours { locks, held: None }));
    }
    Ok(all)
}

#[async_trait]
impl Hand for Ours {
    async fn take(&mut self, key: &Key) -> Result<()> {
        self.held = Some(self.locks.lock(Ask::new(key.clone()).wait(PATIENCE)).await?);
        Ok(())
    }

    async fn give_back(&mut self) -> Result<()> {
        Ok(self.held.take().context("gave back what it had not taken")?.release().await?)
    }

    async fn queue(&self, key: &Key) -> Result<Option<usize>> {
        Ok(Some(self.locks.backend().show(key).await?.waiting.len()))
    }

    async fn leave(self: Box<Self>) -> Result<()> {
        Ok(self.locks.end().await?)
    }
}
