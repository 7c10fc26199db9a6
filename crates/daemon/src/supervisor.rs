//! What the process beside each run does with the store: it takes the run's session over, takes its locks, begins it,
//! and ends it. So a run needs no daemon to go on, and its locks live exactly as long as somebody watches over it.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bell_coord::work::running::Claim;
use bell_coord::{Ask, Coord, Denied, Session, Token};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::work::claim::Begun;
use bell_core::work::run::{End, RunId};
use bell_project::agent::Agent;
use bell_runner::env::Environment;
use bell_runner::error::{Error, Kind};
use bell_runner::exit::{Exit, Reason};
use bell_runner::hooks::Hooks;
use serde::{Deserialize, Serialize};

use crate::site::Site;

const WARRANT_FILE: &str = "warrant.json";

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What a supervisor needs to act for its run. It is read once and then removed, since it has the run's secret.
#[derive(Serialize, Deserialize)]
pub struct Warrant {
    run: RunId,
    store: String,
    token: String,
    locks: Vec<Key>,
    ttl: Ttl,
}

impl Warrant {
    pub(crate) fn new(site: &Site, agent: &Agent, claim: &Claim, locks: Vec<Key>) -> Self {
        Self {
            run: claim.run.clone(),
            store: site.store_url.clone(),
            token: claim.session.token().expose(),
            locks,
            ttl: Ttl::new(agent.settings.resource_lock_timeout.get()).unwrap_or(Ttl::DEFAULT),
        }
    }

    pub(crate) fn write(&self, run_dir: &Path) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path(run_dir))?;
        Ok(serde_json::to_writer(file, self)?)
    }

    fn take(run_dir: &Path) -> io::Result<Self> {
        let text = fs::read(path(run_dir))?;
        fs::remove_file(path(run_dir))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join(WARRANT_FILE)
}

/// The end that a run's record gets for what its supervisor saw.
pub(crate) fn end_of(reason: &Reason) -> End {
    match reason {
        Reason::Completed => End::Completed,
        Reason::Failed { code } => End::Failed { code: *code },
        Reason::Signalled { signal } => End::Crashed { signal: *signal },
        Reason::Timeout => End::Timeout,
        Reason::Killed { why } => End::Killed { reason: why.clone() },
        Reason::Interrupted => End::Interrupted,
        Reason::Revoked { .. } | Reason::Lost { .. } => End::Lost,
        Reason::Limit { what } => End::Killed { reason: format!("it used more than its limit: {what:?}") },
        Reason::NotStarted { error } => End::Unstartable { reason: error.to_string() },
    }
}

/// The supervisor's link to the store.
pub struct Keeper {
    warrant: io::Result<Warrant>,
    kept: RefCell<Option<(Coord, Session)>>,
    /// How the run ends if it loses its right to go on.
    wanted: RefCell<Option<End>>,
}

impl Keeper {
    /// Reads the warrant of a run. A run without one never starts.
    pub fn of(run_dir: &Path) -> Self {
        Self { warrant: Warrant::take(run_dir), kept: RefCell::default(), wanted: RefCell::default() }
    }

    fn kept(&self) -> Option<(Coord, Session)> {
        self.kept.borrow().clone()
    }

    /// Takes the session over, the locks, and then the run itself. Answers what the agent should know of the locks, or
    /// the end, if it may not begin.
    async fn take_up(&self) -> Result<Environment, End> {
        let unstartable = |denied: &Denied| End::Unstartable { reason: denied.to_string() };
        let warrant = self
            .warrant
            .as_ref()
            .map_err(|error| End::Unstartable { reason: format!("its warrant can't be read: {error}") })?;
        let token = Token::parse(&warrant.token)
            .ok_or_else(|| End::Unstartable { reason: "its token can't be read".to_owned() })?;
        let store =
            bell_locks::open::open_store(&warrant.store).await.map_err(|denied| unstartable(&denied))?;
        let coord = Coord::new(store);
        let session = coord.take_over(&token).await.map_err(|denied| match denied {
            Denied::Lost(_) => End::Lost,
            other => unstartable(&other),
        })?;
        self.kept.replace(Some((coord.clone(), session.clone())));
        let mut env = Environment::empty();
        if !warrant.locks.is_empty() {
            let ask = Ask::all(warrant.locks.clone()).ttl(warrant.ttl);
            let leases = coord.acquire(&session, &ask).await.map_err(|denied| match denied {
                Denied::Busy(busy) => End::Busy { reason: Denied::Busy(busy).to_string() },
                other => unstartable(&other),
            })?;
            if let [lease] = leases.as_slice() {
                env = env.with("BELL_LOCK_FENCE", lease.fence.to_string());
            }
        }
        match coord.begin(&warrant.run).await.map_err(|denied| unstartable(&denied))? {
            Begun::Now => Ok(env),
            Begun::TooLate => Err(End::Lost),
            Begun::Killed(reason) => Err(End::Killed { reason }),
        }
    }
}

#[async_trait(?Send)]
impl Hooks for Keeper {
    async fn starting(&self) -> Result<Environment, Error> {
        match self.take_up().await {
            Ok(env) => Ok(env),
            Err(end) => {
                let error = Error::new(Kind::Denied, format!("start it: {end}"));
                self.wanted.replace(Some(end.clone()));
                Err(error.hint(end.advice()))
            }
        }
    }

    async fn started(&self, _pid: i32) {}

    async fn revoked(&self) -> String {
        let (Some((coord, session)), Ok(warrant)) = (self.kept(), &self.warrant) else {
            return std::future::pending().await;
        };
        let end = tokio::select! {
            () = session.over() => End::Lost,
            end = told_to_end(&coord, &warrant.run) => end,
        };
        let why = end.to_string();
        self.wanted.replace(Some(end));
        why
    }

    async fn ending(&self, _reason: &Reason) {}

    async fn ended(&self, exit: &Exit) {
        // A run that was refused before it could reach the store is ended by the daemon that started it.
        let (Some((coord, session)), Ok(warrant)) = (self.kept(), &self.warrant) else { return };
        let wanted = self.wanted.borrow().clone();
        let end = match (&exit.reason, wanted) {
            (Reason::Revoked { .. } | Reason::NotStarted { .. }, Some(end)) => end,
            (reason, _) => end_of(reason),
        };
        while let Err(error) = coord.finish(&warrant.run, &end).await {
            tracing::warn!(run = %warrant.run, %error, "could not record the end of a run");
            tokio::time::sleep(RETRY_AFTER).await;
        }
        drop(session);
    }
}

/// Returns when somebody wants the run to end. A store that can't be watched for a while is asked again: the session
/// tells when that has lasted too long.
async fn told_to_end(coord: &Coord, run: &RunId) -> End {
    loop {
        match coord.kill_wanted(run).await {
            Ok(Some(reason)) => return End::Killed { reason },
            Ok(None) => return End::Lost,
            Err(_) => tokio::time::sleep(RETRY_AFTER).await,
        }
    }
}
