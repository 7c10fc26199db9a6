//! What a check stands on: handles on the store, keys and records of its own, other processes, and its time.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Denied, Keep, Lease, Session};
use bell_core::acquire::PublicHolder;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::Identity;
use bell_locks::LockBackend;
use bell_locks::guard::store::StoreGuard;
use bell_locks::locks::this_process;
use bell_store::clock::boottime;
use bell_store::info::Scope;
use bell_store::{Info, Name, Store};

use crate::open::Opened;
use crate::orders::{Answer, Order};
use crate::process::{Worker, expect_answer};
use crate::run::Effort;
use crate::site::Site;
use crate::verdict::{Stop, ensure};

/// How long to wait for what should come soon. Only a failure takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at something that others are about to change.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A handle on the store, in the scope of a run.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) locks: Arc<dyn LockBackend>,
    scope: String,
}

impl Handle {
    pub(crate) fn new(opened: &Opened, scope: &str) -> Result<Self, Denied> {
        let locks = opened.locks.scope(scope)?;
        Ok(Self { store: Arc::clone(&opened.store), locks, scope: scope.to_owned() })
    }

    /// Guarded values of the run.
    pub(crate) fn guard(&self) -> StoreGuard {
        StoreGuard::new(Arc::clone(&self.store), format!("@{}/guard/", self.scope))
    }

    /// A record of the run.
    pub(crate) fn name(&self, rest: &str) -> Name {
        format!("@{}/data/{rest}", self.scope).into()
    }

    /// A session of a program of its own.
    pub(crate) fn party(&self) -> Result<Party, Stop> {
        Ok(Party { locks: Arc::clone(&self.locks), session: Session::new(whoami(), Keep::Attended)? })
    }
}

/// Who the sessions of a run say they are.
pub(crate) fn whoami() -> Identity {
    Identity { label: Some("bell verify".to_owned()), ..this_process() }
}

/// What one check has.
#[derive(Clone)]
pub(crate) struct Ground {
    site: Arc<Site>,
    check: &'static str,
    effort: Effort,
    until: Duration,
}

impl Ground {
    /// What this check has until then, on the boot clock.
    pub(crate) fn new(site: Arc<Site>, check: &'static str, effort: Effort, until: Duration) -> Self {
        Self { site, check, effort, until }
    }

    pub(crate) fn info(&self) -> &Info {
        self.site.handle().store.info()
    }

    /// The handle that all checks share.
    pub(crate) fn handle(&self) -> &Handle {
        self.site.handle()
    }

    /// A further handle, as another program has; of a store that lives in this process, the same.
    pub(crate) async fn another(&self) -> Result<Handle, Stop> {
        if self.info().scope == Scope::Process {
            return Ok(self.handle().clone());
        }
        Ok(self.site.open().await?)
    }

    /// A key of this check.
    pub(crate) fn key(&self, name: &str) -> Result<Key, Stop> {
        let text = format!("verify://{}/{name}", self.check);
        Key::parse(&text).map_err(|error| Stop::not_run(error.to_string()))
    }

    /// A record of this check.
    pub(crate) fn name(&self, rest: &str) -> Name {
        self.handle().name(&format!("{}/{rest}", self.check))
    }

    pub(crate) fn party(&self) -> Result<Party, Stop> {
        self.handle().party()
    }

    /// Until when to go on with what can go on for ever: no longer than this as a rule, and many times as long
    /// if the run is to be thorough.
    pub(crate) fn until(&self, usual: Duration) -> Duration {
        (boottime() + usual * self.effort.times()).min(self.until)
    }

    /// As many as this, or more if the run is to be thorough.
    pub(crate) fn many(&self, usual: usize, thorough: usize) -> usize {
        match self.effort {
            Effort::Usual => usual,
            Effort::Thorough => thorough,
        }
    }

    /// Another process with the store open.
    pub(crate) async fn worker(&self) -> Result<Worker, Stop> {
        self.opened(Worker::start(self.site.program())?).await
    }

    /// Several of them.
    pub(crate) async fn workers(&self, count: usize) -> Result<Vec<Worker>, Stop> {
        let mut workers = Vec::new();
        for _ in 0..count {
            workers.push(self.worker().await?);
        }
        Ok(workers)
    }

    /// Another process whose wall clock is off by this much, as in `+1h`.
    pub(crate) async fn worker_with_clock(&self, offset: &str) -> Result<Worker, Stop> {
        self.opened(Worker::start_with_clock(self.site.program(), offset)?).await
    }

    async fn opened(&self, mut worker: Worker) -> Result<Worker, Stop> {
        let order = Order::Open { url: self.site.url().to_owned(), scope: self.site.scope().to_owned() };
        expect_answer!(worker.ask(&order).await?, Answer::Opened => Ok(worker))
    }

    /// A folder of the check's own, on this machine.
    pub(crate) fn folder(&self) -> Result<tempfile::TempDir, Stop> {
        Ok(tempfile::Builder::new().prefix("bell-verify-").tempdir()?)
    }

    /// Returns when this many wait for a key.
    pub(crate) async fn until_waiting(&self, key: &Key, count: usize) -> Result<(), Stop> {
        let give_up = boottime() + PATIENCE;
        loop {
            let waiting = self.handle().locks.show(key).await?.waiting.len();
            if waiting == count {
                return Ok(());
            }
            ensure!(boottime() < give_up, "{waiting} wait for {key}, not {count}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// A session on a handle, as one program has it.
#[derive(Clone)]
pub(crate) struct Party {
    pub(crate) locks: Arc<dyn LockBackend>,
    pub(crate) session: Session,
}

impl Party {
    /// Asks for one key.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Lease, Denied> {
        let mut leases = self.locks.acquire(&self.session, &ask).await?;
        leases.pop().ok_or_else(|| Denied::Invalid("granted without a lease".to_owned()))
    }

    /// Takes a key that must be free.
    pub(crate) async fn take(&self, key: &Key) -> Result<Lease, Stop> {
        Ok(self.ask(Ask::new(key.clone())).await?)
    }

    /// Takes a key that must be free, for this long.
    pub(crate) async fn take_for(&self, key: &Key, ttl: Ttl) -> Result<Lease, Stop> {
        Ok(self.ask(Ask::new(key.clone()).ttl(ttl)).await?)
    }

    /// Waits for a key that must become free.
    pub(crate) async fn wait_for(&self, key: &Key) -> Result<Lease, Stop> {
        Ok(self.ask(Ask::new(key.clone()).wait(PATIENCE)).await?)
    }

    pub(crate) async fn release(&self, lease: &Lease) -> Result<(), Stop> {
        Ok(self.locks.release(&self.session, lease).await?)
    }

    pub(crate) async fn renew(&self, lease: &Lease) -> Result<Lease, Denied> {
        self.locks.renew(&self.session, lease).await
    }

    /// Who holds a key, as this party sees it.
    pub(crate) async fn holders(&self, key: &Key) -> Result<Vec<PublicHolder>, Stop> {
        Ok(self.locks.is_held(key).await?)
    }

    /// Ends the check unless the key is held by exactly this lease.
    pub(crate) async fn sees_held(&self, key: &Key, fence: Fence) -> Result<(), Stop> {
        let holders = self.holders(key).await?;
        let fences: Vec<_> = holders.iter().filter_map(|holder| holder.fence).collect();
        ensure!(fences == [fence], "{key} should be held with fence {fence}, is held with {fences:?}");
        Ok(())
    }

    /// Ends the check unless nobody holds the key.
    pub(crate) async fn sees_free(&self, key: &Key) -> Result<(), Stop> {
        let holders = self.holders(key).await?;
        ensure!(holders.is_empty(), "{key} should be free, is held by {} sessions", holders.len());
        Ok(())
    }
}

/// A ttl of this many seconds.
pub(crate) fn seconds(seconds: u64) -> Result<Ttl, Stop> {
    Ttl::new(Duration::from_secs(seconds)).map_err(|error| Stop::not_run(error.to_string()))
}
