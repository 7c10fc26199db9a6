//! A lease that is being kept: renewed from the keeper's thread, and told when it is lost.
//!
//! A holder relies on its lease for a shorter time than the store does. Whatever makes it late, a paused
//! process first of all, shows in [`Held::check`] before it can do harm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_store::clock::boottime;
use bell_store::txn::MAX_LAG;
use tokio::sync::{Notify, watch};

use bell_coord::{Denied, Lease, Session, keeper, tally};

use crate::backend::LockBackend;

/// Failed renewals in a row that mean the lease is lost.
const MAX_FAILURES: u32 = 3;

/// Why a lease is over before its holder gave it back. Final.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Loss {
    /// The holder could not be sure any more: it was paused, or the store did not answer in time.
    #[error("the lease could not be renewed in time")]
    Late,
    /// Three renewals in a row failed.
    #[error("the lease could not be renewed {MAX_FAILURES} times in a row: could not {0}")]
    Failing(String),
    /// The store says that somebody else holds it, or nobody.
    #[error("the lease is over: {0}")]
    NotHolder(String),
    /// An operator broke it.
    #[error("an operator broke the lock: {0}")]
    Broken(String),
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded,
}

/// A lease that is being kept. Dropped, it is released in the background.
pub struct Held {
    backend: Arc<dyn LockBackend>,
    session: Session,
    kept: Arc<Kept>,
    given_back: bool,
}

struct Kept {
    key: Key,
    fence: Fence,
    latest: Mutex<Lease>,
    /// On the boot clock, in ms.
    deadline_ms: AtomicU64,
    loss: watch::Sender<Option<Loss>>,
    /// Nobody needs it any more.
    unneeded: Notify,
}

impl Held {
    /// Keeps a lease alive until the answer is dropped or released.
    pub fn new(backend: &Arc<dyn LockBackend>, session: &Session, lease: Lease) -> Self {
        let kept = Arc::new(Kept {
            key: lease.key.clone(),
            fence: lease.fence,
            deadline_ms: AtomicU64::new(as_ms(lease.deadline)),
            latest: Mutex::new(lease),
            loss: watch::Sender::new(None),
            unneeded: Notify::new(),
        });
        let (keeping, of, renewed) = (Arc::clone(backend), session.clone(), Arc::downgrade(&kept));
        keeper::run_soon(move || Some(renew_while_needed(keeping, of, renewed.upgrade()?)));
        Self { backend: Arc::clone(backend), session: session.clone(), kept, given_back: false }
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.kept.key
    }

    /// What to send with every guarded write.
    pub fn fence(&self) -> Fence {
        self.kept.fence
    }

    /// The lease as last renewed.
    pub fn lease(&self) -> Lease {
        self.kept.latest()
    }

    /// The session that holds it.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether the lease can still be relied on. Call it before every act that the lock protects, first of
    /// all after anything that may have taken long.
    ///
    /// # Errors
    /// Why it is over; that is final.
    pub fn check(&self) -> Result<(), Loss> {
        self.kept.check(&self.session)
    }

    /// On this machine's boot clock: the earliest moment at which the store may give the key to others. Every renewal moves
    /// it. Zero if an operator broke the lock; `None` if the holder gave it back.
    pub fn ends_at(&self) -> Option<Duration> {
        self.kept.ends_at()
    }

    /// Reads [`Held::ends_at`] from any thread, for longer than this lease is kept: `None` from then on.
    pub fn end_reader(&self) -> impl Fn() -> Option<Duration> + Send + Sync + use<> {
        let kept = Arc::downgrade(&self.kept);
        move || kept.upgrade().and_then(|kept| kept.ends_at())
    }

    /// Returns when the lease is lost.
    pub async fn lost(&self) -> Loss {
        let mut loss = self.kept.loss.subscribe();
        let found = loss.wait_for(Option::is_some).await;
        found.ok().and_then(|loss| (*loss).clone()).unwrap_or(Loss::SessionEnded)
    }

    /// Gives the key back. Dropped half-way, it is given back in the background.
    ///
    /// # Errors
    /// [`Denied::Lost`] if it was lost before.
    pub async fn release(mut self) -> Result<(), Denied> {
        let lost = self.kept.loss.borrow().clone();
        let result = self.backend.release(&self.session, &self.kept.latest()).await;
        self.given_back = result.is_ok();
        match (lost, result) {
            (Some(loss), _) => Err(Denied::Lost(loss.to_string())),
            (None, Err(Denied::NotHolder(_) | Denied::NotHeld)) => {
                Err(Denied::Lost("the lease had ended before it was released".to_owned()))
            }
            (None, result) => result,
        }
    }

    /// Stops renewing and leaves the lease to its ttl.
    pub fn forget(mut self) -> Lease {
        self.given_back = true;
        self.kept.latest()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kept.unneeded.notify_one();
        if self.given_back {
            return;
        }
        let (backend, session, lease) = (Arc::clone(&self.backend), self.session.clone(), self.kept.latest());
        keeper::run(async move {
            // A lost lease is nobody's to release, and any other ends with its ttl if this fails.
            let _ = backend.release(&session, &lease).await;
        });
    }
}

impl Kept {
    fn latest(&self) -> Lease {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ends_at(&self) -> Option<Duration> {
        earliest_end(self.loss.borrow().as_ref(), &self.latest())
    }

    fn check(&self, session: &Session) -> Result<(), Loss> {
        if let Some(loss) = &*self.loss.borrow() {
            return Err(loss.clone());
        }
        let loss = if session.is_over() {
            Loss::SessionEnded
        } else if boottime() >= Duration::from_millis(self.deadline_ms.load(Ordering::Acquire)) {
            Loss::Late
        } else {
            return Ok(());
        };
        Err(self.lose(loss))
    }

    /// The first loss stands.
    fn lose(&self, loss: Loss) -> Loss {
        let first = self.loss.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert_with(|| loss.clone());
            first
        });
        if first {
            tally::lost();
            tracing::warn!(key = %self.key, fence = %self.fence, %loss, "lock lost");
        }
        self.loss.borrow().clone().unwrap_or(loss)
    }

    fn renewed(&self, lease: Lease) {
        self.deadline_ms.store(as_ms(lease.deadline), Ordering::Release);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }
}

/// A lease that can't be renewed lasts in the store for as long as its last renewal said. Whether its session has ended is
/// the session's to say. The decision of a renewal may be [`MAX_LAG`] older than its commit, and the end counts from it.
fn earliest_end(loss: Option<&Loss>, lease: &Lease) -> Option<Duration> {
    match loss {
        Some(Loss::NotHolder(_)) => None,
        Some(Loss::Broken(_)) => Some(Duration::ZERO),
        None | Some(Loss::Late | Loss::Failing(_) | Loss::SessionEnded) => {
            Some((lease.deadline + lease.ttl.margin()).saturating_sub(MAX_LAG))
        }
    }
}

/// Renews every ttl/3 until the lease is not needed any more or lost.
async fn renew_while_needed(backend: Arc<dyn LockBackend>, session: Session, kept: Arc<Kept>) {
    let mut failures = 0;
    let revocations = session.revocations();
    loop {
        let lease = kept.latest();
        let pause = if failures == 0 { lease.ttl.length() / 3 } else { lease.ttl.length() / 12 };
        let until_late = lease.deadline.saturating_sub(boottime());
        tokio::select! {
            // Most leases are given back before this runs at all.
            biased;
            () = kept.unneeded.notified() => return,
            () = tokio::time::sleep(pause.min(until_late)) => {}
            reason = revocations.of(&kept.key, kept.fence) => {
                kept.lose(Loss::Broken(reason));
                return;
            }
        }
        if kept.check(&session).is_err() {
            return;
        }
        let until_late = lease.deadline.saturating_sub(boottime());
        let renewal = tokio::select! {
            renewal = tokio::time::timeout(until_late, backend.renew(&session, &lease)) => renewal,
            () = kept.unneeded.notified() => return,
        };
        match renewal {
            Ok(Ok(renewed)) => {
                failures = 0;
                kept.renewed(renewed);
            }
            Ok(Err(Denied::Unavailable(error))) if failures + 1 < MAX_FAILURES => {
                failures += 1;
                tally::renew_failed();
                tracing::warn!(key = %kept.key, %error, failures, "renewal failed");
            }
            Ok(Err(Denied::Unavailable(error))) => {
                tally::renew_failed();
                kept.lose(Loss::Failing(error.to_string()));
                return;
            }
            Ok(Err(over)) => {
                kept.lose(Loss::NotHolder(over.to_string()));
                return;
            }
            Err(_late) => {
                tally::renew_failed();
                kept.lose(Loss::Late);
                return;
            }
        }
    }
}

fn as_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
