//! Who takes a key and gives it back, in one way or another.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bell_locks::Key;

/// How long a lock lasts in every recipe. Longer than any measurement, so that nothing runs out.
pub(super) const TTL: Duration = Duration::from_secs(600);

/// How long recipes that poll sleep between two tries: what redis-py does unless told otherwise.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(100);

/// Somebody who has at most one key at a time.
#[async_trait]
pub(super) trait Hand: Send + Sync {
    /// Takes the key. While another has it, waits in the way of its recipe.
    async fn take(&mut self, key: &Key) -> Result<()>;

    /// Gives the key back.
    async fn give_back(&mut self) -> Result<()>;

    /// How many wait for the key; `None` where nobody can tell.
    async fn queue(&self, _key: &Key) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Leaves nothing behind on the server that would go on costing.
    async fn leave(self: Box<Self>) -> Result<()>;
}

/// Any of them.
pub(super) type AnyHand = Box<dyn Hand>;

/// A hand that can only try, and sleeps between two tries.
#[async_trait]
pub(super) trait Try: Send {
    /// Whether it has the key now.
    async fn try_take(&mut self, key: &Key) -> Result<bool>;
}

/// Tries until it has the key.
pub(super) async fn poll(hand: &mut impl Try, key: &Key) -> Result<()> {
    while !hand.try_take(key).await? {
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(())
}

/// What tells one hand from every other, as long as the random ones that recipes use.
pub(super) fn token(number: usize) -> String {
    format!("{number:032x}")
}
