//! The same without async: for programs that have no runtime.

use bell_coord::{Ask, Denied};
use tokio::runtime::{Builder, Runtime};

use crate::held;
use crate::held::Loss;
use std::sync::Arc;

/// Locks for programs without async. See [`crate::Locks`].
#[derive(Clone)]
pub struct Locks {
    runtime: Arc<Runtime>,
    locks: crate::Locks,
}

/// A lease that is kept alive. See [`crate::Held`].
pub struct Held {
    runtime: Arc<Runtime>,
    held: held::Held,
}

impl Locks {
    /// Opens the backend at `url` with a session that this process keeps alive.
    ///
    /// Must not be called from async code.
    ///
    /// # Errors
    /// As for [`crate::Locks::open`].
    pub fn open(url: &str) -> Result<Self, Denied> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Denied::Invalid(format!("could not start a runtime: {error}")))?;
        let locks = runtime.block_on(crate::Locks::open(url))?;
        Ok(Self { runtime: Arc::new(runtime), locks })
    }

    /// Takes one key and keeps it, renewed from another thread.
    ///
    /// # Errors
    /// [`Denied`], which says why.
    pub fn lock(&self, ask: Ask) -> Result<Held, Denied> {
        let held = self.runtime.block_on(self.locks.lock(ask))?;
        Ok(Held { runtime: Arc::clone(&self.runtime), held })
    }

    /// The async handle below.
    pub fn inner(&self) -> &crate::Locks {
        &self.locks
    }

    /// Ends the session and everything it holds.
    ///
    /// # Errors
    /// If the backend can't be reached.
    pub fn end(self) -> Result<(), Denied> {
        self.runtime.block_on(self.locks.end())
    }
}

impl Held {
    /// The lease: its key, its fence.
    pub fn inner(&self) -> &held::Held {
        &self.held
    }

    /// Whether the lease can still be relied on.
    ///
    /// # Errors
    /// Why it is over; that is final.
    pub fn check(&self) -> Result<(), Loss> {
        self.held.check()
    }

    /// Gives the key back.
    ///
    /// # Errors
    /// [`Denied::Lost`] if it was lost before.
    pub fn release(self) -> Result<(), Denied> {
        self.runtime.block_on(self.held.release())
    }
}
