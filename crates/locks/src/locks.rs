//! Locks over any store, and the handle most programs need.

use std::sync::Arc;

use async_trait::async_trait;
use bell_coord::{Ask, Broken, Coord, Denied, Keep, Lease, Session};
use bell_core::acquire::PublicHolder;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_store::Store;
use bell_store::info::{Durability, Limits};

use crate::backend::{Capabilities, LockBackend};
use crate::held::Held;

/// Locks on any store of Bellwether.
#[derive(Clone)]
pub struct StoreLocks {
    coord: Coord,
}

impl StoreLocks {
    /// Locks on this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { coord: Coord::new(store) }
    }

    /// The machinery below, for programs that need all of it.
    pub fn coord(&self) -> &Coord {
        &self.coord
    }
}

#[async_trait]
impl LockBackend for StoreLocks {
    fn capabilities(&self) -> Capabilities {
        let info = self.coord.store().info();
        Capabilities {
            backend: info.scheme.to_owned(),
            scope: info.scope,
            durability: info.durability,
            clock: info.clock,
            push: info.push,
            fences_survive_restart: info.durability > Durability::Volatile,
            shared: true,
            several_keys: true,
            fifo: true,
            deadlock_detection: true,
            sessions: true,
            listing: true,
            breaking: true,
            notices_death: info.notices_death,
        }
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        self.coord.acquire(session, ask).await
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        self.coord.renew(session, lease).await
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        self.coord.release(session, lease).await
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        Ok(self.coord.show(key).await?.holders)
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        let space = self.coord.space().scoped(path).map_err(|bad| Denied::Invalid(bad.to_string()))?;
        Ok(Arc::new(Self { coord: self.coord.scoped(space) }))
    }

    async fn end_session(&self, session: &Session) -> Result<(), Denied> {
        self.coord.end(session).await
    }

    async fn show(&self, key: &Key) -> Result<LockState, Denied> {
        self.coord.show(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockState>, Denied> {
        let mut locks = Vec::new();
        let mut after = None;
        loop {
            let page = self.coord.list(prefix, after.as_ref(), Limits::CONTRACT.page).await?;
            locks.extend(page.locks);
            if page.next.is_none() {
                return Ok(locks);
            }
            after = page.next;
        }
    }

    async fn break_lock(&self, key: &Key, reason: &str, by: &str) -> Result<Broken, Denied> {
        self.coord.break_lock(key, reason, by).await
    }

    async fn changed(&self, prefix: &str) -> Result<(), Denied> {
        self.coord.changed(prefix, self.coord.revision().await?).await
    }
}

/// A backend together with this program's session: what most programs need.
///
/// Cheap to clone; all clones act in the one session. When the last clone is dropped the session ends, and
/// everything it held with it.
#[derive(Clone)]
pub struct Locks {
    backend: Arc<dyn LockBackend>,
    session: Session,
}

impl Locks {
    /// Opens the backend at `url` with a session that this process keeps alive.
    ///
    /// # Errors
    /// If no backend of that scheme is known, or it can't be opened.
    pub async fn open(url: &str) -> Result<Self, Denied> {
        Self::new(crate::open::open(url).await?, this_process())
    }

    /// A session of this process on a backend.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn new(backend: Arc<dyn LockBackend>, who: Identity) -> Result<Self, Denied> {
        Ok(Self { backend, session: Session::new(who, Keep::Attended)? })
    }

    /// The backend.
    pub fn backend(&self) -> &Arc<dyn LockBackend> {
        &self.backend
    }

    /// The session all clones share.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes one key and keeps it.
    ///
    /// # Errors
    /// [`Denied`], which says why.
    pub async fn lock(&self, ask: Ask) -> Result<Held, Denied> {
        let mut held = self.lock_all(ask).await?;
        held.pop().ok_or_else(|| Denied::Invalid("a request takes at least one key".to_owned()))
    }

    /// Takes several keys, all or nothing, and keeps them.
    ///
    /// # Errors
    /// [`Denied`], which says why.
    pub async fn lock_all(&self, ask: Ask) -> Result<Vec<Held>, Denied> {
        let leases = self.backend.acquire(&self.session, &ask).await?;
        Ok(leases.into_iter().map(|lease| Held::new(&self.backend, &self.session, lease)).collect())
    }

    /// Ends the session and everything it holds, and waits until that is stored.
    ///
    /// # Errors
    /// If the backend can't be reached.
    pub async fn end(self) -> Result<(), Denied> {
        self.backend.end_session(&self.session).await
    }
}

/// Who this process is, for others to see: its host name, its id, its program's name.
pub fn this_process() -> Identity {
    let node = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let label = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Identity { agent: None, run: None, node, pid: Some(std::process::id()), label }
}
