//! Backends that get it wrong on purpose, to show that the checker notices.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_locks::{Ask, Capabilities, Denied, Fence, Key, Lease, LockBackend, PublicHolder, Session, Ttl};
use bell_store::clock::boottime;
use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flaw {
    /// The guard looks at no fence.
    UnguardedSink,
    /// The store ends leases after a second, whatever was agreed.
    EarlyExpiry,
    /// Who finds the key taken is granted it all the same.
    DoubleGrant,
    /// A release is acknowledged and not carried out.
    LostRelease,
    /// Fences start anew with every process.
    OwnFences,
}

/// A backend with a flaw.
pub struct Flawed {
    inner: Arc<dyn LockBackend>,
    flaw: Flaw,
}

impl Flawed {
    /// Gives a backend a flaw.
    pub fn new(inner: Arc<dyn LockBackend>, flaw: Flaw) -> Self {
        Self { inner, flaw }
    }

    /// The lease as the flaw shows it.
    fn shown(&self, lease: Lease, ask: &Ask, sent: Duration) -> Lease {
        let fence = if self.flaw == Flaw::OwnFences { own_fence() } else { lease.fence };
        if self.flaw == Flaw::EarlyExpiry || fence != lease.fence {
            return Lease::new(lease.key, lease.mode, fence, ask.ttl, sent);
        }
        lease
    }
}

#[async_trait]
impl LockBackend for Flawed {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let sent = boottime();
        let meant = match self.flaw {
            Flaw::EarlyExpiry => ask.clone().ttl(Ttl::MIN),
            _ => ask.clone(),
        };
        match self.inner.acquire(session, &meant).await {
            Ok(leases) => Ok(leases.into_iter().map(|lease| self.shown(lease, ask, sent)).collect()),
            Err(Denied::Busy(busy)) if self.flaw == Flaw::DoubleGrant => {
                let fence = busy.holders.first().and_then(|holder| holder.fence).unwrap_or(Fence(1));
                Ok(vec![Lease::new(busy.key, ask.mode, fence, ask.ttl, sent)])
            }
            Err(denied) => Err(denied),
        }
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        if self.flaw == Flaw::EarlyExpiry {
            return Ok(Lease::new(lease.key.clone(), lease.mode, lease.fence, lease.ttl, boottime()));
        }
        self.inner.renew(session, lease).await
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        if self.flaw == Flaw::LostRelease {
            return Ok(());
        }
        self.inner.release(session, lease).await
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        self.inner.is_held(key).await
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        Ok(Arc::new(Self::new(self.inner.scope(path)?, self.flaw)))
    }

    async fn end_session(&self, session: &Session) -> Result<(), Denied> {
        self.inner.end_session(session).await
    }
}

fn own_fence() -> Fence {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Fence(NEXT.fetch_add(1, Ordering::Relaxed))
}
