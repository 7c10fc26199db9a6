//! The place of a run in the store: a scope of its own, with a lock that says that the run is alive.
//!
//! Everything that a run writes starts with `@verify-<id>/`. It is all removed at the end; what a run that was
//! killed left is removed by the next one, which knows by the free lock that nobody works there any more.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::Denied;
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_locks::locks::StoreLocks;
use bell_locks::{Ask, Held, LockBackend, Locks};
use bell_store::info::Scope;
use bell_store::{Error, Kind, Store};
use serde::Serialize;

use crate::ground::{Handle, whoami};
use crate::open::Open;
use crate::process::Program;
use crate::tidy;

/// What the scopes of runs start with.
pub(crate) const SCOPE: &str = "verify-";

/// Held by a run in its own scope for as long as it lives.
const ALIVE: &str = "verify://run";

/// How long the lock of a run outlives it where its death is not noticed.
const ALIVE_TTL: Duration = Duration::from_secs(30);

/// How long cleaning up may take. A store that has gone away answers nothing.
pub(crate) const CLEAN_WITHIN: Duration = Duration::from_secs(8);

/// Where a run works.
pub(crate) struct Site {
    url: String,
    open: Arc<dyn Open>,
    program: Program,
    scope: String,
    handle: Handle,
    /// Kept alive for as long as this is.
    _alive: Held,
    session: Locks,
}

/// What came of cleaning up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cleaning {
    /// Records of this run that were removed.
    pub removed: usize,
    /// Records that runs which were killed had left, and that were removed.
    pub leftovers: usize,
    /// What could not be removed, why, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

impl Site {
    /// Opens the store and takes a scope that nobody uses.
    pub(crate) async fn begin(url: &str, open: Arc<dyn Open>, program: Program) -> Result<Self, Denied> {
        let scope = format!("{SCOPE}{}", uuid::Uuid::now_v7().simple());
        let opened = open.open(url).await?;
        let handle = Handle::new(&opened, &scope)?;
        let session = Locks::new(alive_locks(&opened.store, &scope)?, whoami())?;
        let ttl = Ttl::new(ALIVE_TTL).map_err(|error| Denied::Invalid(error.to_string()))?;
        let alive = session.lock(Ask::new(alive_key()?).ttl(ttl)).await?;
        Ok(Self { url: url.to_owned(), open, program, scope, handle, _alive: alive, session })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn scope(&self) -> &str {
        &self.scope
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A further handle.
    pub(crate) async fn open(&self) -> Result<Handle, Denied> {
        self.open_in(&self.scope).await
    }

    /// A further handle in another scope.
    pub(crate) async fn open_in(&self, scope: &str) -> Result<Handle, Denied> {
        Handle::new(&self.open.open(&self.url).await?, scope)
    }

    /// Whether others than this process can use the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.handle.store.info().scope > Scope::Process
    }

    /// Removes what runs that were killed have left. Answers how many records.
    pub(crate) async fn remove_leftovers(&self) -> Result<usize, Denied> {
        let store = &self.handle.store;
        let mut removed = 0;
        for scope in tidy::scopes(store).await? {
            if scope != self.scope && !is_alive(store, &scope).await? {
                removed += tidy::remove(store, &scope).await?;
            }
        }
        Ok(removed)
    }

    /// Removes everything that this run has written.
    pub(crate) async fn end(&self, leftovers: usize) -> Cleaning {
        let (store, scope) = (&self.handle.store, &self.scope);
        let clean = async {
            // Whatever it is refused with, the records are removed next.
            let _ = self.session.clone().end().await;
            tidy::remove(store, scope).await
        };
        let removed = tokio::time::timeout(CLEAN_WITHIN, clean).await.unwrap_or_else(|_| Err(late()));
        match removed {
            Ok(removed) => Cleaning { removed, leftovers, left: None },
            Err(error) => {
                let left = format!(
                    "records that start with @{scope}/ are left: could not {error}. The next bell verify on \
                     this store removes them."
                );
                Cleaning { removed: 0, leftovers, left: Some(left) }
            }
        }
    }
}

/// Whether the run that uses this scope lives.
async fn is_alive(store: &Arc<dyn Store>, scope: &str) -> Result<bool, Denied> {
    Ok(!alive_locks(store, scope)?.is_held(&alive_key()?).await?.is_empty())
}

fn alive_locks(store: &Arc<dyn Store>, scope: &str) -> Result<Arc<dyn LockBackend>, Denied> {
    StoreLocks::new(Arc::clone(store)).scope(scope)
}

fn alive_key() -> Result<Key, Denied> {
    Key::parse(ALIVE).map_err(|error| Denied::Invalid(error.to_string()))
}

fn late() -> Error {
    Error::new(Kind::Unavailable, "remove them: the store does not answer")
}
