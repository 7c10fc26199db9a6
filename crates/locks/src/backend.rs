//! The trait that anything that keeps locks implements.
//!
//! Six methods are required; a backend says in [`Capabilities`] what it can do beyond them, and the
//! conformance suite asks that before it tests. Everything else in this library (keeping leases alive, the
//! patterns, blocking use) works over any backend.

use std::sync::Arc;

use async_trait::async_trait;
use bell_coord::{Ask, Broken, Denied, Lease, Session};
use bell_core::acquire::PublicHolder;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_store::info::{Clock, Durability, Push, Scope};
use serde::Serialize;

/// Keeps locks.
///
/// A lease is named by its key, its session and its fence. Every grant of a key has a greater fence than
/// any before it.
#[async_trait]
pub trait LockBackend: Send + Sync + 'static {
    /// What this backend promises and can do.
    fn capabilities(&self) -> Capabilities;

    /// Grants every key of `ask`, or none. With a wait of zero it answers at once.
    ///
    /// A session that holds a key gets the same lease back, refreshed.
    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied>;

    /// Extends a lease from now. One that is over stays over: [`Denied::NotHolder`] or [`Denied::NotHeld`].
    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied>;

    /// Ends a lease. May be repeated; never touches a later lease.
    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied>;

    /// Who holds a key; nobody: free. Looking never disturbs acquiring.
    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied>;

    /// The same backend with a key space of its own, which shares nothing with this one.
    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied>;

    /// Ends all leases and waits of a session ([`Capabilities::sessions`]).
    async fn end_session(&self, session: &Session) -> Result<(), Denied> {
        let _ = session;
        Err(unsupported("end sessions"))
    }

    /// A key with those who hold and those who wait ([`Capabilities::listing`]).
    async fn show(&self, key: &Key) -> Result<LockState, Denied> {
        Ok(LockState { key: key.clone(), holders: self.is_held(key).await?, waiting: Vec::new() })
    }

    /// Keys that start with `prefix` and are held or waited for ([`Capabilities::listing`]).
    async fn list(&self, prefix: &str) -> Result<Vec<LockState>, Denied> {
        let _ = prefix;
        Err(unsupported("list locks"))
    }

    /// Takes a key from whoever holds it ([`Capabilities::breaking`]).
    async fn break_lock(&self, key: &Key, reason: &str, by: &str) -> Result<Broken, Denied> {
        let _ = (key, reason, by);
        Err(unsupported("break locks"))
    }

    /// Returns when something about keys that start with `prefix` may have changed
    /// ([`Capabilities::listing`]).
    async fn changed(&self, prefix: &str) -> Result<(), Denied> {
        let _ = prefix;
        Err(unsupported("watch locks"))
    }
}

/// What a backend promises and can do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Capabilities {
    /// What it is: a URL scheme, usually.
    pub backend: String,
    /// Who can share it.
    pub scope: Scope,
    /// What a grant survives.
    pub durability: Durability,
    /// What leases are measured by.
    pub clock: Clock,
    /// How a waiter learns that it is its turn.
    pub push: Push,
    /// Fences rise over a restart of the backend.
    pub fences_survive_restart: bool,
    /// Leases can be shared.
    pub shared: bool,
    /// Several keys can be taken in one step.
    pub several_keys: bool,
    /// Waiters are served first come, first served.
    pub fifo: bool,
    /// A wait that would never end is refused.
    pub deadlock_detection: bool,
    /// Sessions can be ended with all they hold.
    pub sessions: bool,
    /// Locks can be listed, with those who wait, and watched.
    pub listing: bool,
    /// Locks can be broken.
    pub breaking: bool,
    /// A holder that dies on this machine is noticed before its lease runs out.
    pub notices_death: bool,
}

impl Capabilities {
    /// Claims nothing beyond the required methods: one process, no memory, waiting by looking again. A
    /// backend says what it can do on top of that.
    pub fn least(backend: &str) -> Self {
        Self {
            backend: backend.to_owned(),
            scope: Scope::Process,
            durability: Durability::Volatile,
            clock: Clock::Boottime,
            push: Push::Poll { interval_ms: 10 },
            fences_survive_restart: false,
            shared: false,
            several_keys: false,
            fifo: false,
            deadlock_detection: false,
            sessions: false,
            listing: false,
            breaking: false,
            notices_death: false,
        }
    }
}

fn unsupported(what: &str) -> Denied {
    Denied::Invalid(format!("this backend can't {what}"))
}
