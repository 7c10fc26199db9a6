//! A mutex in the process first, then the lock: of many tasks that want a key, one at a time asks the
//! store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bell_coord::{Ask, Denied};
use bell_core::key::Key;
use tokio::sync::{Mutex as TaskMutex, OwnedMutexGuard};

use crate::held::Held;
use crate::locks::Locks;

type Gate = TaskMutex<()>;

/// Locks for many tasks of one process.
#[derive(Clone)]
pub struct TwoLayer {
    locks: Locks,
    gates: Arc<Mutex<HashMap<Key, Weak<Gate>>>>,
}

/// A key held against other tasks and other processes.
pub struct TwoLayerHeld {
    // Dropped in this order: the lock is given back before the next task may ask for it.
    held: Held,
    _gate: OwnedMutexGuard<()>,
}

impl TwoLayer {
    /// Two layers over these locks.
    pub fn new(locks: Locks) -> Self {
        Self { locks, gates: Arc::default() }
    }

    /// Takes one key: waits for its turn among this process's tasks, then asks the store.
    ///
    /// Tasks of one process share a session, and a session that holds a key gets it again; it is the
    /// mutex that keeps them apart.
    ///
    /// # Errors
    /// [`Denied`], which says why; the time spent waiting for other tasks counts against the wait.
    pub async fn lock(&self, key: Key, ask: Ask) -> Result<TwoLayerHeld, Denied> {
        let gate = self.gate(&key);
        let started = bell_store::clock::boottime();
        let gate = if ask.wait.is_zero() {
            gate.try_lock_owned().map_err(|_| busy_here(&key))?
        } else {
            let turn = tokio::time::timeout(ask.wait, gate.lock_owned()).await;
            turn.map_err(|_| timed_out_here(&key))?
        };
        let waited = bell_store::clock::boottime().saturating_sub(started);
        let wait = ask.wait.saturating_sub(waited);
        let held = self.locks.lock(Ask { keys: vec![key], ..ask }.wait(wait)).await?;
        Ok(TwoLayerHeld { held, _gate: gate })
    }

    fn gate(&self, key: &Key) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(key).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(Gate::default());
        gates.insert(key.clone(), Arc::downgrade(&gate));
        gate
    }
}

impl TwoLayerHeld {
    /// The lock.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Gives the key back, to the fleet and then to this process's next task.
    ///
    /// # Errors
    /// [`Denied::Lost`] if it was lost before.
    pub async fn release(self) -> Result<(), Denied> {
        self.held.release().await
    }
}

fn busy_here(key: &Key) -> Denied {
    Denied::Busy(Box::new(another_task(key)))
}

fn timed_out_here(key: &Key) -> Denied {
    Denied::TimedOut(Box::new(another_task(key)))
}

fn another_task(key: &Key) -> bell_core::acquire::Busy {
    bell_core::acquire::Busy { key: key.clone(), holders: Vec::new(), waiting: 1, queue_full: false }
}
