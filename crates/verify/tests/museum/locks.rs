//! Flaws of the locks above a sound store.

use std::sync::Arc;

use async_trait::async_trait;
use bell_coord::{Ask, Denied, Lease, Session};
use bell_core::acquire::{Busy, PublicHolder};
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_locks::{Broken, Capabilities, LockBackend};

/// What is wrong with the locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockFlaw {
    /// Whoever releases a key frees it.
    AnyonesRelease,
    /// A renewal of a lease that is over takes the key again.
    Resurrection,
    /// Several keys are taken one after the other, and kept if one of them is taken.
    OneByOne,
    /// A release is acknowledged and not done.
    LostRelease,
    /// A cycle is taken for a key that is busy.
    BlindToCycles,
    /// A session that was ended goes on.
    EndlessSession,
}

impl LockFlaw {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "anyones-release" => Self::AnyonesRelease,
            "resurrection" => Self::Resurrection,
            "one-by-one" => Self::OneByOne,
            "lost-release" => Self::LostRelease,
            "blind-to-cycles" => Self::BlindToCycles,
            "endless-session" => Self::EndlessSession,
            unknown => panic!("there is no exhibit {unknown}"),
        }
    }
}

/// Locks with a flaw.
pub(crate) struct FlawedLocks {
    pub(crate) flaw: LockFlaw,
    pub(crate) locks: Arc<dyn LockBackend>,
}

#[async_trait]
impl LockBackend for FlawedLocks {
    fn capabilities(&self) -> Capabilities {
        self.locks.capabilities()
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        match self.flaw {
            LockFlaw::OneByOne => {
                let mut leases = Vec::new();
                for key in &ask.keys {
                    let one = Ask::new(key.clone()).ttl(ask.ttl).wait(ask.wait);
                    leases.extend(self.locks.acquire(session, &one).await?);
                }
                Ok(leases)
            }
            LockFlaw::BlindToCycles => match self.locks.acquire(session, ask).await {
                Err(Denied::Deadlock(_)) => {
                    let key = ask.keys[0].clone();
                    let holders = self.locks.is_held(&key).await?;
                    Err(Denied::TimedOut(Box::new(Busy { key, holders, waiting: 0, queue_full: false })))
                }
                answer => answer,
            },
            _ => self.locks.acquire(session, ask).await,
        }
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        match self.locks.renew(session, lease).await {
            Err(Denied::NotHeld) if self.flaw == LockFlaw::Resurrection => {
                let again = Ask::new(lease.key.clone()).ttl(lease.ttl);
                self.locks.acquire(session, &again).await.map(|mut leases| leases.pop().unwrap())
            }
            answer => answer,
        }
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        match self.flaw {
            LockFlaw::LostRelease => Ok(()),
            LockFlaw::AnyonesRelease => match self.locks.release(session, lease).await {
                Err(Denied::NotHolder(_)) => {
                    self.locks.break_lock(&lease.key, "released", "anybody").await.map(drop)
                }
                answer => answer,
            },
            _ => self.locks.release(session, lease).await,
        }
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        self.locks.is_held(key).await
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        Ok(Arc::new(Self { flaw: self.flaw, locks: self.locks.scope(path)? }))
    }

    async fn end_session(&self, session: &Session) -> Result<(), Denied> {
        match self.flaw {
            LockFlaw::EndlessSession => Ok(()),
            _ => self.locks.end_session(session).await,
        }
    }

    async fn show(&self, key: &Key) -> Result<LockState, Denied> {
        self.locks.show(key).await
    }

    async fn break_lock(&self, key: &Key, reason: &str, by: &str) -> Result<Broken, Denied> {
        self.locks.break_lock(key, reason, by).await
    }
}
