//! Waking those who wait for a change.
//!
//! A store tells the hub what it has just committed, and the hub wakes exactly those who watch it. Of
//! changes by other processes a store often knows only that there were some: then everybody looks again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::error::Result;
use crate::record::{Name, Snapshot};
use crate::txn::Watch;
use crate::{Error, Kind, Store};

/// Those who wait for a change of one store.
#[derive(Default)]
pub struct Hub {
    waiting: Mutex<Waiting>,
    next_id: AtomicU64,
    stirs: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    /// In the order of their coming, which is the order in which they are woken.
    wakers: BTreeMap<u64, oneshot::Sender<Wake>>,
    names: HashMap<Name, BTreeSet<u64>>,
    prefixes: BTreeMap<u64, String>,
}

/// Why somebody is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wake {
    /// What it watches has changed, or it must decide again for another reason.
    Changed,
    /// Something changed elsewhere; look whether it was this.
    Look,
}

impl Hub {
    /// Wakes those who watch these names. Called by a store after each of its own commits.
    pub fn committed<'a>(&self, names: impl IntoIterator<Item = &'a Name>) {
        let mut waiting = self.lock();
        if waiting.wakers.is_empty() {
            return;
        }
        let mut woken = BTreeSet::new();
        for name in names {
            woken.extend(waiting.names.get(name).into_iter().flatten());
            let watching = |(id, prefix): (&u64, &String)| name.as_str().starts_with(prefix).then_some(*id);
            woken.extend(waiting.prefixes.iter().filter_map(watching));
        }
        for id in woken {
            waiting.wake(id, Wake::Changed);
        }
    }

    /// Something changed elsewhere: everybody compares what it watches with what is stored.
    pub fn look(&self) {
        self.lock().wake_all(Wake::Look);
    }

    /// Something happened that no record shows (a process died): everybody decides again.
    pub fn stir(&self) {
        // Counted first: who registers after this and then looks at the count has not missed it.
        self.stirs.fetch_add(1, Ordering::Release);
        self.lock().wake_all(Wake::Changed);
    }

    /// The body of [`Store::stirs`].
    pub fn stirs(&self) -> u64 {
        self.stirs.load(Ordering::Acquire)
    }

    /// The body of [`Store::changed`] for a store that keeps a hub: waits until the watched records
    /// differ from what was seen. Dropped, it leaves nothing behind.
    ///
    /// # Errors
    /// Those of reading from `store`.
    pub async fn changed(&self, store: &dyn Store, watch: &Watch) -> Result<()> {
        loop {
            // Registered before looking: a change between the two wakes us.
            let registered = self.register(watch);
            if differs(store, watch).await? {
                return Ok(());
            }
            match registered.woken().await {
                Some(Wake::Changed) => return Ok(()),
                Some(Wake::Look) => {}
                None => return Err(Error::new(Kind::Unavailable, "wait for changes: the store was closed")),
            }
        }
    }

    fn register<'a>(&'a self, watch: &'a Watch) -> Registered<'a> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (waker, woken) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.wakers.insert(id, waker);
        match watch {
            Watch::Names(names) => {
                for (name, _) in names {
                    waiting.names.entry(name.clone()).or_default().insert(id);
                }
            }
            Watch::Prefix(prefix, _) => {
                waiting.prefixes.insert(id, prefix.clone());
            }
        }
        Registered { hub: self, id, watch, woken }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Waiting {
    fn wake(&mut self, id: u64, wake: Wake) {
        if let Some(waker) = self.wakers.remove(&id) {
            // The other end may have been dropped: nobody is waiting then.
            let _ = waker.send(wake);
        }
    }

    fn wake_all(&mut self, wake: Wake) {
        for (_, waker) in std::mem::take(&mut self.wakers) {
            let _ = waker.send(wake);
        }
    }
}

struct Registered<'a> {
    hub: &'a Hub,
    id: u64,
    watch: &'a Watch,
    woken: oneshot::Receiver<Wake>,
}

impl Registered<'_> {
    async fn woken(mut self) -> Option<Wake> {
        (&mut self.woken).await.ok()
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut waiting = self.hub.lock();
        waiting.wakers.remove(&self.id);
        waiting.prefixes.remove(&self.id);
        if let Watch::Names(names) = self.watch {
            for (name, _) in names {
                if let Some(ids) = waiting.names.get_mut(name) {
                    ids.remove(&self.id);
                    if ids.is_empty() {
                        waiting.names.remove(name);
                    }
                }
            }
        }
    }
}

async fn differs(store: &dyn Store, watch: &Watch) -> Result<bool> {
    match watch {
        Watch::Names(seen) => {
            let names: Vec<Name> = seen.iter().map(|(name, _)| name.clone()).collect();
            let current: Snapshot = store.read(&names).await?;
            Ok(seen.iter().any(|(name, version)| current.version(name.as_str()) != *version))
        }
        Watch::Prefix(_, after) => Ok(store.read(&[]).await?.revision > *after),
    }
}
