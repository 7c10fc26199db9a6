//! One of the two processes of a drill, from the inside.

use std::sync::Arc;

use bell_core::lock::Fence;
use bell_core::session::Identity;
use bell_locks::guard::store::GuardError;
use bell_locks::locks::{StoreLocks, this_process};
use bell_locks::{Ask, Held, LockBackend, Locks};
use bell_store::Store;

use super::actor::follow_orders;
use super::orders::{Answer, Heed, Order};
use super::{Guard, Halt};

/// Does what the drill orders, in its scope of the store, and writes through `guard`. Ends when the drill has no
/// more orders.
///
/// # Errors
/// If the store refuses the session.
pub async fn work(store: &Arc<dyn Store>, scope: &str, guard: &dyn Guard) -> Result<(), Halt> {
    let backend = StoreLocks::new(Arc::clone(store)).scope(scope)?;
    let who = Identity { label: Some("bell drill".to_owned()), ..this_process() };
    let locks = Locks::new(backend, who)?;
    let mut hands = Hands { locks: &locks, guard, held: None, fence: Fence(0) };
    follow_orders(async |order| hands.follow(order).await).await?;
    hands.held = None;
    Ok(locks.end().await?)
}

/// What the process has at hand.
struct Hands<'a> {
    locks: &'a Locks,
    guard: &'a dyn Guard,
    held: Option<Held>,
    /// The last fence it got, also after the lease is over.
    fence: Fence,
}

impl Hands<'_> {
    async fn follow(&mut self, order: Order) -> Answer {
        match order {
            Order::Hold { key, ttl, wait } => {
                match self.locks.lock(Ask::new(key).ttl(ttl).wait(wait)).await {
                    Ok(held) => {
                        self.fence = held.fence();
                        self.held = Some(held);
                        Answer::Held(self.fence)
                    }
                    Err(denied) => Answer::Failed(denied.to_string()),
                }
            }
            Order::Check => self.check(),
            Order::Write { resource, text, heed } => self.write(&resource, &text, heed).await,
            Order::Release => match self.held.take() {
                Some(held) => match held.release().await {
                    Ok(()) => Answer::Released,
                    Err(denied) => Answer::Lost(denied.to_string()),
                },
                None => Answer::Failed("nothing is held".to_owned()),
            },
        }
    }

    fn check(&self) -> Answer {
        match self.held.as_ref().map(Held::check) {
            Some(Ok(())) => Answer::Sure,
            Some(Err(loss)) => Answer::Lost(loss.to_string()),
            None => Answer::Lost("nothing is held".to_owned()),
        }
    }

    async fn write(&self, resource: &str, text: &str, heed: Heed) -> Answer {
        let sure = if heed == Heed::Lease { self.check() } else { Answer::Sure };
        if sure != Answer::Sure {
            return sure;
        }
        match self.guard.write(resource, self.fence, text.as_bytes()).await {
            Ok(()) => Answer::Wrote(self.fence),
            Err(GuardError::Stale(stale)) => Answer::Stale { given: stale.given, seen: stale.seen },
            Err(GuardError::Store(error)) => Answer::Failed(error.to_string()),
        }
    }
}
