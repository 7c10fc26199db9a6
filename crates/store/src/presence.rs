//! Noticing at once that a process on this machine died.
//!
//! A session's process holds a kernel lock on a file of its own for as long as it lives. The kernel lets
//! go of it however the process ends, so whoever can take the lock knows that the session is gone. The
//! lease still stands behind it: where no lock can be held or looked at, nothing is known, and nothing
//! is claimed.

mod kernel_locks;

use std::any::Any;

use crate::error::Result;

pub use kernel_locks::KernelLocks;
pub(crate) use kernel_locks::{Sight, unusable};

/// How a store notices the death of a session's process.
pub trait Presence: Send + Sync {
    /// Shows the session as present until the returned value is dropped or the process ends.
    fn attend(&self, session: &str) -> Result<Attendance>;

    /// Whether the session attended and its process is certainly gone. It stays so for ever.
    fn is_gone(&self, session: &str) -> bool;

    /// Forgets a session that has ended.
    fn forget(&self, session: &str);
}

/// Keeps a session present until dropped.
pub struct Attendance(#[expect(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl Attendance {
    /// Presence that ends when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

/// For stores that can't notice: nobody is ever known to be gone.
pub struct Unknown;

impl Presence for Unknown {
    fn attend(&self, _session: &str) -> Result<Attendance> {
        Ok(Attendance::new(()))
    }

    fn is_gone(&self, _session: &str) -> bool {
        false
    }

    fn forget(&self, _session: &str) {}
}
