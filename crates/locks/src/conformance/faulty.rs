//! A backend that fails on demand: refuses, stays silent, or loses its answer.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bell_coord::{Ask, Denied, Lease, Session};
use bell_core::acquire::PublicHolder;
use bell_core::key::Key;
use bell_store::{Error, Kind};

use crate::backend::{Capabilities, LockBackend};

/// What goes wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It never arrives, and the caller is told so.
    Unreachable,
    /// It never arrives, and nothing is ever answered.
    Silent,
    /// It is carried out, and the answer is lost.
    AnswerLost,
}

/// A backend with faults in front of it.
pub(super) struct Faulty {
    inner: Arc<dyn LockBackend>,
    /// What goes wrong, and with how many more requests.
    plan: Mutex<Option<(Fault, u32)>>,
    renewals: AtomicU32,
}

impl Faulty {
    /// Without a fault yet.
    pub(super) fn over(inner: &Arc<dyn LockBackend>) -> Arc<Self> {
        Arc::new(Self { inner: Arc::clone(inner), plan: Mutex::new(None), renewals: AtomicU32::new(0) })
    }

    /// From now on every request goes wrong.
    pub(super) fn fail(&self, fault: Fault) {
        self.fail_times(fault, u32::MAX);
    }

    /// The next requests go wrong.
    pub(super) fn fail_times(&self, fault: Fault, times: u32) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some((fault, times));
    }

    /// From now on nothing goes wrong.
    pub(super) fn heal(&self) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How many renewals were asked for.
    pub(super) fn renewals(&self) -> u32 {
        self.renewals.load(Ordering::SeqCst)
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let (fault, times) = plan.as_mut()?;
        let fault = *fault;
        *times -= 1;
        plan.take_if(|(_, times)| *times == 0);
        Some(fault)
    }

    async fn carry<T>(&self, call: impl Future<Output = Result<T, Denied>>) -> Result<T, Denied> {
        match self.next_fault() {
            None => call.await,
            Some(Fault::Unreachable) => Err(failure(Kind::Unavailable)),
            Some(Fault::Silent) => pending().await,
            Some(Fault::AnswerLost) => {
                call.await?;
                Err(failure(Kind::Unknown))
            }
        }
    }
}

fn failure(kind: Kind) -> Denied {
    Error::new(kind, "reach the backend: the suite is in the way").into()
}

#[async_trait]
impl LockBackend for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        self.carry(self.inner.acquire(session, ask)).await
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        self.carry(self.inner.renew(session, lease)).await
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        self.carry(self.inner.release(session, lease)).await
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        self.carry(self.inner.is_held(key)).await
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        self.inner.scope(path)
    }
}
