//! What refuses a stale writer, at the write boundary.
//!
//! A guard accepts a write with fence `f` on a resource if and only if `f` is at least the highest fence
//! that resource has seen, and remembers `f` durably in one step with the write. A lock alone can't do
//! this: a holder that was paused does not know that it has lost.

pub mod file;
pub mod git;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sqlite;
pub mod store;

use bell_core::lock::Fence;

/// A write came with a fence that is too old: somebody has taken the lock since, and has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("refused a stale write: its fence is {given}, and {seen} has been seen")]
pub struct Stale {
    /// The fence that came with the write.
    pub given: Fence,
    /// The highest fence that the resource has seen.
    pub seen: Fence,
}

impl Stale {
    /// Refuses a write, and counts it.
    pub fn refuse(given: Fence, seen: Fence) -> Self {
        bell_coord::tally::fence_rejected();
        Self { given, seen }
    }
}
