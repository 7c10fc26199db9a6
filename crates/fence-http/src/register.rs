//! The highest fence of each resource, and whose turn it is.
//!
//! Fences are kept in a store, as guarded values without content. Turns are kept in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::Stale;
use bell_locks::guard::store::{GuardError, StoreGuard};
use bell_locks::open::open_store;
use bell_store::{Error, Kind, Store};
use tokio::sync::{Mutex as TaskMutex, OwnedMutexGuard};

/// How long a store may take. Later than this a client has often given up, and would try again beside itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The highest fence of each resource. Cheap to clone; clones take turns with each other.
#[derive(Clone)]
pub struct Register {
    fences: StoreGuard,
    turns: Arc<Turns>,
}

/// One request at a time for each resource. A turn that nobody has or waits for is forgotten.
type Turns = Mutex<HashMap<Key, Weak<TaskMutex<()>>>>;

/// That a request may go on. The next one about its resource waits until this is dropped.
pub(crate) struct Turn {
    _mutex: OwnedMutexGuard<()>,
}

impl Register {
    /// Keeps fences in the records of `store` whose names start with `prefix`: one for each service.
    pub fn new(store: Arc<dyn Store>, prefix: impl Into<String>) -> Self {
        Self { fences: StoreGuard::new(store, prefix), turns: Arc::default() }
    }

    /// Keeps fences in the store at `url`, for example `sqlite:PATH`. What is in `memory:` is forgotten with the
    /// process, and a stale writer gets through after a restart: that is for tests.
    ///
    /// # Errors
    /// If the store can't be opened.
    pub async fn open(url: &str, prefix: impl Into<String>) -> Result<Self, bell_locks::Denied> {
        Ok(Self::new(open_store(url).await?, prefix))
    }

    /// Waits for the turn of a request and remembers its fence.
    ///
    /// Dropped half-way, the fence may have been remembered, and the turn is the next one's.
    pub(crate) async fn admit(&self, resource: &Key, fence: Fence) -> Result<Turn, GuardError> {
        let turn = Turn { _mutex: self.turn(resource).lock_owned().await };
        // Only now: whoever had the turn before may have had a higher fence.
        match tokio::time::timeout(ANSWER_WITHIN, self.raise(resource, fence)).await {
            Ok(raised) => raised.map(|()| turn),
            Err(_) => Err(late().into()),
        }
    }

    async fn raise(&self, resource: &Key, fence: Fence) -> Result<(), GuardError> {
        // A holder sends many requests with one fence, and only the first has something to remember.
        match self.fences.read(resource.as_str()).await? {
            Some(seen) if seen.fence > fence => Err(Stale::refuse(fence, seen.fence).into()),
            Some(seen) if seen.fence == fence => Ok(()),
            _ => self.fences.write(resource.as_str(), fence, &[]).await,
        }
    }

    fn turn(&self, resource: &Key) -> Arc<TaskMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(resource).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(resource.clone(), Arc::downgrade(&turn));
        turn
    }
}

fn late() -> Error {
    let seconds = ANSWER_WITHIN.as_secs();
    Error::new(Kind::Unavailable, format!("remember the fence: the store took more than {seconds} s"))
        .hint("Look at the store with bell store info; then try again.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::memory::Memory;

    fn register() -> Register {
        Register::new(Arc::new(Memory::new()), "fence/")
    }

    fn key(name: &str) -> Key {
        Key::parse(&format!("path://service/{name}")).unwrap()
    }

    #[tokio::test]
    async fn a_resource_is_used_in_turns_and_others_are_not_kept_waiting() {
        let register = register();
        let turn = register.admit(&key("a"), Fence(1)).await.unwrap();
        register.admit(&key("b"), Fence(1)).await.unwrap();
        let resource = key("a");
        let mut next = std::pin::pin!(register.admit(&resource, Fence(2)));
        tokio::select! {
            biased;
            _ = &mut next => panic!("two turns at once"),
            () = tokio::task::yield_now() => {}
        }
        drop(turn);
        next.await.unwrap();
    }

    #[tokio::test]
    async fn a_fence_that_was_overtaken_while_it_waited_is_refused() {
        let register = register();
        let turn = register.admit(&key("a"), Fence(7)).await.unwrap();
        let resource = key("a");
        let mut stale = std::pin::pin!(register.admit(&resource, Fence(6)));
        tokio::select! {
            biased;
            _ = &mut stale => panic!("two turns at once"),
            () = tokio::task::yield_now() => {}
        }
        drop(turn);
        assert!(matches!(stale.await, Err(GuardError::Stale(Stale { given: Fence(6), seen: Fence(7) }))));
    }

    #[tokio::test]
    async fn turns_that_are_over_are_forgotten() {
        let register = register();
        for n in 0..100 {
            drop(register.admit(&key(&n.to_string()), Fence(1)).await.unwrap());
        }
        assert!(register.turns.lock().unwrap().len() <= 1);
    }
}
