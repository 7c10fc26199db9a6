//! One item at a time: a short lease, renewed while the work lasts, given back at its end.

use std::future::Future;
use std::time::Duration;

use bell_coord::{Ask, Denied};
use bell_core::key::Key;
use bell_core::lock::Ttl;

use crate::held::Held;
use crate::locks::Locks;

/// Long enough to survive two failed renewals, short enough that a dead machine's item is soon free.
const TTL: Duration = Duration::from_secs(60);

/// Takes one item's lock, works, gives it back.
#[derive(Clone)]
pub struct PerItem {
    locks: Locks,
    wait: Duration,
}

impl PerItem {
    /// Items that somebody else works on are skipped: [`Denied::Busy`].
    pub fn new(locks: Locks) -> Self {
        Self { locks, wait: Duration::ZERO }
    }

    /// Waits for an item that somebody else works on.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Takes the item.
    ///
    /// # Errors
    /// [`Denied`], which says why.
    pub async fn take(&self, key: Key) -> Result<Held, Denied> {
        let ttl = Ttl::new(TTL).map_err(|error| Denied::Invalid(error.to_string()))?;
        self.locks.lock(Ask::new(key).ttl(ttl).wait(self.wait)).await
    }

    /// Takes the item, runs `work`, and gives the item back whatever came of it. Work is dropped as soon
    /// as the lease is lost.
    ///
    /// # Errors
    /// [`Denied::Lost`] if the lease was lost on the way: then somebody else may be at it.
    pub async fn run<T, W>(&self, key: Key, work: impl FnOnce(&Held) -> W) -> Result<T, Denied>
    where
        W: Future<Output = T>,
    {
        let held = self.take(key).await?;
        let working = work(&held);
        tokio::select! {
            done = working => {
                held.release().await?;
                Ok(done)
            }
            loss = held.lost() => Err(Denied::Lost(loss.to_string())),
        }
    }
}
