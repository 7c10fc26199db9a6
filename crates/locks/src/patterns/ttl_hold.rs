//! One tick in each window, fleet-wide: the lock is never given back, its expiry opens the next window.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Denied, Keep, Lease, Session};
use bell_core::acquire::Busy;
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::Identity;

use crate::backend::LockBackend;

/// A loop that many nodes run and only one may tick at a time.
pub struct TtlHold {
    backend: Arc<dyn LockBackend>,
    key: Key,
    ttl: Ttl,
    who: Identity,
}

/// Whether to do the work of this tick.
#[derive(Debug)]
pub enum Tick {
    /// This node's turn. The lease goes with guarded writes; it is not to be released.
    Lead(Lease),
    /// Somebody has ticked, or is ticking, in this window.
    Skip(Box<Busy>),
}

impl TtlHold {
    /// A loop that ticks every `period`. The window is twice that: if its leader dies, one tick is missed.
    ///
    /// # Errors
    /// If twice the period is not a legal ttl.
    pub fn new(
        backend: Arc<dyn LockBackend>,
        who: Identity,
        key: Key,
        period: Duration,
    ) -> Result<Self, Denied> {
        let ttl = Ttl::new(period * 2).map_err(|error| Denied::Invalid(error.to_string()))?;
        Ok(Self { backend, key, ttl, who })
    }

    /// Asks for this tick. A node that led the window is refused in it like any other.
    ///
    /// # Errors
    /// Anything but «busy»: then do not tick.
    pub async fn tick(&self) -> Result<Tick, Denied> {
        // A session of its own each time: the lease must outlive this process, and even its holder must
        // not get it twice in one window.
        let session = Session::new(self.who.clone(), Keep::Detached)?;
        let ask = Ask::new(self.key.clone()).ttl(self.ttl);
        match self.backend.acquire(&session, &ask).await {
            Ok(mut leases) => {
                let lease = leases.pop().ok_or_else(|| Denied::Lost("no lease was granted".to_owned()))?;
                Ok(Tick::Lead(lease))
            }
            Err(Denied::Busy(busy)) => Ok(Tick::Skip(busy)),
            Err(denied) => Err(denied),
        }
    }
}
