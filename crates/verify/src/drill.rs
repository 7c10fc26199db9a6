//! The drill: a holder is paused past its lease, another takes over, and the first wakes up and writes.
//!
//! Real processes, real signals, on the user's own store, in a scope of its own that is removed afterwards.
//! Whoever wakes up must notice by itself ([`Held::check`](bell_locks::Held::check)), and where it does not look, the
//! guard must refuse its fence: both are tried, since a program may forget the first.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `script` | what happens in a round |
//! | `timeline` | what happened, and whether it should have |
//! | `orders` | what the two processes are told, and what they answer |
//! | `worker` | such a process, from the inside |
//! | [`actor`] | such a process, from the outside: started, told, paused, killed |

pub mod actor;
mod orders;
mod script;
mod timeline;
mod worker;

use std::fmt;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_core::lock::{Fence, Ttl};
use bell_locks::Denied;
use bell_locks::guard::store::{GuardError, StoreGuard};
use bell_store::{Error, Store};

pub use timeline::{Report, Step, Who};
pub use worker::work;

/// What the scopes of drills start with.
const SCOPE: &str = "drill-";

/// How long cleaning up may take: a store that has gone away answers nothing.
const CLEAN_WITHIN: Duration = Duration::from_secs(10);

/// What refuses a stale writer. The drill writes through it and sees what it lets through.
#[async_trait]
pub trait Guard: Send + Sync {
    /// Replaces the value of `resource`, unless the fence is older than one it has seen.
    async fn write(&self, resource: &str, fence: Fence, value: &[u8]) -> Result<(), GuardError>;
}

#[async_trait]
impl Guard for StoreGuard {
    async fn write(&self, resource: &str, fence: Fence, value: &[u8]) -> Result<(), GuardError> {
        Self::write(self, resource, fence, value).await
    }
}

/// The guard of a drill's scope in a store.
pub fn guard(store: &Arc<dyn Store>, scope: &str) -> StoreGuard {
    StoreGuard::new(Arc::clone(store), format!("@{scope}/guarded/"))
}

/// A drill on a store.
pub struct Drill {
    store: Arc<dyn Store>,
    scope: String,
    guard: Arc<dyn Guard>,
    program: Box<dyn Fn(&str) -> Command + Send + Sync>,
    ttl: Ttl,
    rounds: u32,
}

impl Drill {
    /// A drill of so many rounds. `program` starts this program once more, to call [`work`] in the scope that it
    /// is given; the store must be one that processes share.
    pub fn new(
        store: Arc<dyn Store>,
        rounds: u32,
        ttl: Ttl,
        program: impl Fn(&str) -> Command + Send + Sync + 'static,
    ) -> Self {
        let scope = format!("{SCOPE}{}", uuid::Uuid::now_v7().simple());
        let guard = Arc::new(guard(&store, &scope));
        Self { store, scope, guard, program: Box::new(program), ttl, rounds }
    }

    /// The same drill with another guard for what is written late; the processes have their own.
    #[must_use]
    pub fn guarded_by(self, guard: impl FnOnce(StoreGuard) -> Arc<dyn Guard>) -> Self {
        let guard = guard(self::guard(&self.store, &self.scope));
        Self { guard, ..self }
    }

    /// Plays all rounds, and tells each step as it happens. Dropped half-way, it kills its processes; what is
    /// in the store is removed by [`Drill::clean`].
    ///
    /// # Errors
    /// If it could not be played to its end, which says nothing about the store's promises.
    pub async fn run(&self, tell: impl FnMut(&Step)) -> Result<Report, Halt> {
        script::play(self, tell).await
    }

    /// Removes everything that the drill has written.
    ///
    /// # Errors
    /// If the store can't be reached, or takes too long.
    pub async fn clean(&self) -> Result<(), Halt> {
        let cleaning = crate::tidy::remove(&self.store, &self.scope);
        match tokio::time::timeout(CLEAN_WITHIN, cleaning).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.left(&error.to_string())),
            Err(_) => Err(self.left("the store does not answer")),
        }
    }

    fn left(&self, why: &str) -> Halt {
        Halt {
            why: format!("remove what the drill wrote: {why}"),
            hint: format!("Records that start with @{}/ are left; nobody reads them.", self.scope),
        }
    }
}

/// Why a drill could not be played to its end.
#[derive(Debug)]
pub struct Halt {
    why: String,
    hint: String,
}

impl Halt {
    fn new(why: impl Into<String>, hint: &str) -> Self {
        Self { why: why.into(), hint: hint.to_owned() }
    }

    /// What to do next.
    pub fn advice(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Halt {
    /// Reads after «could not».
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Halt {}

const TRY_AGAIN: &str = "See whether the store answers (bell doctor), then try again.";

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::new(format!("go on with the drill: {error}"), TRY_AGAIN)
    }
}

impl From<Denied> for Halt {
    fn from(denied: Denied) -> Self {
        Self::new(format!("go on with the drill: {denied}"), TRY_AGAIN)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::new(error.to_string(), error.advice())
    }
}
