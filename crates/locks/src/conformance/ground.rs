//! What a case stands on: handles on one storage, keys of its own, and ways to say what went wrong.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bell_coord::{Ask, Denied, Keep, Lease, Session};
use bell_core::acquire::{Busy, PublicHolder};
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::Identity;
use bell_store::clock::{boottime, wall};

use super::Setup;
use super::cases::Case;
use super::process::{Program, Worker};
use crate::backend::{Capabilities, LockBackend};
use crate::locks::Locks;

/// How long to wait for what should come soon. Only a failure takes this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Deadlines are kept in whole milliseconds, so one may come this much early.
pub(super) const MOMENT: Duration = Duration::from_millis(2);

/// Between two looks at something that others are about to change.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a case comes to: what was seen, or why it ended early.
pub(super) type Done = Result<String, Stop>;

/// Why a case ended early.
#[derive(Debug)]
pub(super) struct Stop(pub(super) String);

impl Stop {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<Denied> for Stop {
    fn from(denied: Denied) -> Self {
        Self(format!("refused: {denied}"))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(end: tokio::task::JoinError) -> Self {
        Self(format!("a task of the case ended early: {end}"))
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self(format!("this machine refused: {error}"))
    }
}

/// Ends the case unless this holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::conformance::ground::Stop(format!($($why)+)));
        }
    };
}
pub(super) use ensure;

/// Ends the case unless the answer is of this kind; gives what is in it.
macro_rules! expects {
    ($answer:expr, $pattern:pat => $found:expr, $what:literal) => {
        match $answer {
            $pattern => $found,
            other => {
                return Err($crate::conformance::ground::Stop(format!(
                    "expected {}, got {:?}",
                    $what, other
                )));
            }
        }
    };
}
pub(super) use expects;

/// Handles on the storage, and a part of its keys that no other case uses.
#[derive(Clone)]
pub(super) struct Ground {
    setup: Arc<dyn Setup>,
    handles: Vec<Arc<dyn LockBackend>>,
    program: Program,
    path: Arc<str>,
}

impl Ground {
    pub(super) fn new(setup: Arc<dyn Setup>, handles: Vec<Arc<dyn LockBackend>>, program: Program) -> Self {
        Self { setup, handles, program, path: "".into() }
    }

    /// The same handles, with keys for this case.
    pub(super) fn of_case(&self, case: &Case) -> Self {
        Self { path: format!("conformance://{}/{}", unique(), case.short_name()).into(), ..self.clone() }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.handles[0].capabilities()
    }

    pub(super) fn url(&self) -> Option<String> {
        self.setup.url()
    }

    /// What the keys of this case start with.
    pub(super) fn prefix(&self) -> &str {
        &self.path
    }

    /// A key of this case.
    pub(super) fn key(&self, name: &str) -> Result<Key, Stop> {
        Key::parse(&format!("{}/{name}", self.path)).map_err(|error| Stop::failed(error.to_string()))
    }

    /// One of the handles, the same for the same number.
    pub(super) fn handle(&self, number: usize) -> &Arc<dyn LockBackend> {
        &self.handles[number % self.handles.len()]
    }

    /// A session of a program of its own.
    pub(super) fn party(&self, number: usize) -> Result<Party, Stop> {
        Party::new(self.handle(number), Keep::Attended, number)
    }

    /// A session that outlives whoever made it.
    pub(super) fn detached(&self, number: usize) -> Result<Party, Stop> {
        Party::new(self.handle(number), Keep::Detached, number)
    }

    /// Many sessions, spread over the handles.
    pub(super) fn parties(&self, count: usize) -> Result<Vec<Party>, Stop> {
        (0..count).map(|number| self.party(number)).collect()
    }

    /// Lets go of every handle and opens new ones.
    pub(super) async fn reopened(self) -> Result<Self, Stop> {
        let Self { setup, handles, program, path } = self;
        drop(handles);
        let handles = super::open(&setup).await?;
        Ok(Self { setup, handles, program, path })
    }

    /// A folder of the case's own.
    pub(super) fn folder(&self) -> Result<tempfile::TempDir, Stop> {
        Ok(tempfile::Builder::new().prefix("bell-conformance-").tempdir()?)
    }

    /// Another process with the backend open.
    pub(super) async fn worker(&self) -> Result<Worker, Stop> {
        self.opened(Worker::start(&self.program)?).await
    }

    /// Another process whose wall clock is off by this much, as in `+1h`.
    pub(super) async fn worker_with_clock(&self, offset: &str) -> Result<Worker, Stop> {
        self.opened(Worker::start_with_clock(&self.program, offset)?).await
    }

    async fn opened(&self, mut worker: Worker) -> Result<Worker, Stop> {
        let url = self.url().ok_or_else(|| Stop::failed("the backend has no URL"))?;
        worker.answers(&format!("open {url}"), "opened").await?;
        Ok(worker)
    }

    /// Returns when this many wait for a key.
    pub(super) async fn until_waiting(&self, key: &Key, count: usize) -> Result<(), Stop> {
        let looker = self.party(0)?;
        let give_up = boottime() + PATIENCE;
        loop {
            let busy = looker.is_refused(key).await?;
            if busy.waiting == count {
                return Ok(());
            }
            ensure!(boottime() < give_up, "{} wait for {key}, not {count}", busy.waiting);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// A session on a handle, as one program has it.
#[derive(Clone)]
pub(super) struct Party {
    pub(super) backend: Arc<dyn LockBackend>,
    pub(super) session: Session,
}

impl Party {
    pub(super) fn new(backend: &Arc<dyn LockBackend>, keep: Keep, number: usize) -> Result<Self, Stop> {
        let who = Identity {
            agent: Some(format!("party-{number}")),
            run: Some(format!("run-{}", unique())),
            node: Some("conformance".to_owned()),
            pid: Some(std::process::id()),
            label: Some("conformance suite".to_owned()),
        };
        Ok(Self { backend: Arc::clone(backend), session: Session::new(who, keep)? })
    }

    /// A program that keeps its leases alive.
    pub(super) fn locks(backend: Arc<dyn LockBackend>) -> Result<Locks, Stop> {
        Ok(Locks::new(
            backend,
            Identity { label: Some("conformance suite".to_owned()), ..Identity::default() },
        )?)
    }

    /// Asks for one key.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Lease, Denied> {
        let mut leases = self.backend.acquire(&self.session, &ask).await?;
        leases.pop().ok_or_else(|| Denied::Invalid("granted without a lease".to_owned()))
    }

    /// Takes a key that must be free.
    pub(super) async fn take(&self, key: &Key) -> Result<Lease, Stop> {
        Ok(self.ask(Ask::new(key.clone())).await?)
    }

    /// Takes a key that must be free, for this long.
    pub(super) async fn take_for(&self, key: &Key, ttl: Ttl) -> Result<Lease, Stop> {
        Ok(self.ask(Ask::new(key.clone()).ttl(ttl)).await?)
    }

    /// Waits for a key that must become free.
    pub(super) async fn wait_for(&self, key: &Key) -> Result<Lease, Stop> {
        Ok(self.ask(Ask::new(key.clone()).wait(PATIENCE)).await?)
    }

    /// Asks for a key that somebody else must be holding.
    pub(super) async fn is_refused(&self, key: &Key) -> Result<Busy, Stop> {
        let answer = self.ask(Ask::new(key.clone())).await;
        Ok(*expects!(answer, Err(Denied::Busy(busy)) => busy, "busy"))
    }

    pub(super) async fn release(&self, lease: &Lease) -> Result<(), Stop> {
        Ok(self.backend.release(&self.session, lease).await?)
    }

    pub(super) async fn renew(&self, lease: &Lease) -> Result<Lease, Denied> {
        self.backend.renew(&self.session, lease).await
    }

    /// Who holds a key, as this party sees it.
    pub(super) async fn holders(&self, key: &Key) -> Result<Vec<PublicHolder>, Stop> {
        Ok(self.backend.is_held(key).await?)
    }

    /// Ends the case unless the key is held by exactly this lease.
    pub(super) async fn sees_held(&self, key: &Key, fence: Fence) -> Result<(), Stop> {
        let holders = self.holders(key).await?;
        let held = matches!(holders.as_slice(), [one] if one.fence == Some(fence));
        ensure!(held, "{key} should be held with fence {fence}, is held by {holders:?}");
        Ok(())
    }

    /// Ends the case unless nobody holds the key.
    pub(super) async fn sees_free(&self, key: &Key) -> Result<(), Stop> {
        let holders = self.holders(key).await?;
        ensure!(holders.is_empty(), "{key} should be free, is held by {holders:?}");
        Ok(())
    }
}

/// A ttl of this many seconds.
pub(super) fn seconds(seconds: u64) -> Result<Ttl, Stop> {
    Ttl::new(Duration::from_secs(seconds)).map_err(|error| Stop::failed(error.to_string()))
}

/// A file in a folder of a case.
pub(super) fn file(folder: &tempfile::TempDir, name: &str) -> std::path::PathBuf {
    Path::new(folder.path()).join(name)
}

/// Distinct among all runs on one storage, also one that outlives this process.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{count:x}", std::process::id(), wall().as_nanos())
}
