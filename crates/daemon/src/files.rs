//! How many files the daemon may have open: each connection is one, and ten thousand programs may wait for a lock.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit as it was when this process started.
static USUAL: OnceLock<Option<u64>> = OnceLock::new();

/// Raises the limit to the most that is permitted. Agents start with the one that held before: programs exist that
/// can't handle more than a thousand.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if USUAL.set(limit.current).is_err() || limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "could not raise the limit on open files");
    }
}

/// The limit as it was before it was raised; `None` if it was not, or there was none.
pub(crate) fn usual() -> Option<u64> {
    USUAL.get().copied().flatten()
}
