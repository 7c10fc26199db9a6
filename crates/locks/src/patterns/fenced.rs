//! Writes that carry the fence: checked here first, and by the guard where it counts.

use bell_core::lock::Fence;

use crate::held::{Held, Loss};

/// A held lock whose fence goes with every write.
pub struct Fenced {
    held: Held,
}

/// Why a fenced write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum FencedError<E> {
    /// The lease is over; the write was not tried.
    #[error(transparent)]
    Lost(Loss),
    /// The guard, or what is behind it, refused.
    #[error(transparent)]
    Refused(#[from] E),
}

impl Fenced {
    /// Writes under this lock.
    pub fn new(held: Held) -> Self {
        Self { held }
    }

    /// The lock.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Runs `write` with the fence if the lease still stands. The guard inside `write` has the last word:
    /// this process may be paused between the check and the write.
    ///
    /// # Errors
    /// [`FencedError`], which says who refused.
    pub fn write<T, E>(&self, write: impl FnOnce(Fence) -> Result<T, E>) -> Result<T, FencedError<E>> {
        self.held.check().map_err(FencedError::Lost)?;
        Ok(write(self.held.fence())?)
    }

    /// Gives the lock back to the caller.
    pub fn into_held(self) -> Held {
        self.held
    }
}
