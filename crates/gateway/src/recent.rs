//! Leases that were granted lately, so that giving one back needs no read.
//!
//! What stands here only saves time: whoever gives a lease back finds out if the key has changed since. So nothing has to
//! be kept in step, and everything may be forgotten at any time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bell_coord::{Lease, Session};
use bell_core::key::Key;
use bell_core::session::SessionId;

/// Leases that are remembered, about a kilobyte each. Most are given back soon; one that is held for long may as well be
/// read again.
const REMEMBERED_MAX: usize = 4_096;

/// What was granted lately. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Recent(Arc<Mutex<HashMap<(SessionId, Key), Lease>>>);

impl Recent {
    /// Remembers leases of a session. What others wait for changes anyway, and may be large.
    pub(crate) fn granted(&self, session: &Session, leases: &[Lease]) {
        let mut all = self.lock();
        for lease in leases.iter().filter(|lease| lease.is_alone()) {
            if all.len() >= REMEMBERED_MAX {
                all.clear();
            }
            all.insert((session.id().clone(), lease.key.clone()), lease.clone());
        }
    }

    /// What is remembered of a session's lease, which is then forgotten: it is about to end.
    pub(crate) fn take(&self, session: &SessionId, key: &Key) -> Option<Lease> {
        self.lock().remove(&(session.clone(), key.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(SessionId, Key), Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
