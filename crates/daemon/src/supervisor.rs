//! What the process beside each run does with the store: it takes the run's session over, takes its locks, opens the
//! counter that its agent talks to, begins it, and ends it. So a run needs no daemon to go on, and its locks live exactly
//! as long as somebody watches over it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bell_control::place::Place;
use bell_coord::work::running::Claim;
use bell_coord::{Ask, Coord, Denied, Keep, Session, Token};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::work::agent::AgentName;
use bell_core::work::claim::Begun;
use bell_core::work::run::{End, IsolatedBy, RunId};
use bell_gateway::Desk;
use bell_gateway::desk::Standing;
use bell_locks::locks::StoreLocks;
use bell_locks::{Held, LockBackend, Loss};
use bell_project::agent::Agent;
use bell_runner::env::Environment;
use bell_runner::error::{Error, Kind};
use bell_runner::exit::{Exit, Reason};
use bell_runner::hooks::Hooks;
use bell_runner::isolation::{Means, Views};
use bell_runner::launch::Launch;
use bell_runner::watchdog::Watchdog;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::callees::ProjectCallees;
use crate::counter::Counter;
use crate::lease_ends::LeaseEnds;
use crate::site::Site;
use crate::tallies;

const WARRANT_FILE: &str = "warrant.json";

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What a supervisor needs to act for its run. It is read once and then removed, since it has the run's secret.
#[derive(Serialize, Deserialize)]
pub struct Warrant {
    run: RunId,
    agent: AgentName,
    project: PathBuf,
    store: String,
    /// Where the locks are, if not in the store.
    lock_store: Option<String>,
    token: String,
    /// What proves the session that holds the run's locks in another store, if they were taken before it began.
    holder: Option<String>,
    locks: Vec<Key>,
    ttl: Ttl,
    isolation: IsolatedBy,
}

impl Warrant {
    pub(crate) fn new(site: &Site, agent: &Agent, claim: &Claim, launch: &Launch, locks: Vec<Key>) -> Self {
        let lock_store = site.lock_store.as_ref().map(|store| store.url.clone());
        Self {
            run: claim.run.clone(),
            agent: agent.name.clone(),
            project: site.folder.path().to_owned(),
            store: site.store_url.clone(),
            lock_store,
            token: claim.session.token().expose(),
            holder: claim.holder.as_ref().map(|holder| holder.token().expose()),
            locks,
            ttl: Ttl::new(agent.settings.resource_lock_timeout.get()).unwrap_or(Ttl::DEFAULT),
            isolation: isolated_by(launch),
        }
    }

    pub(crate) fn write(&self, run_dir: &Path) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path(run_dir))?;
        // In one piece: a writer of JSON writes every word and every quote by itself.
        file.write_all(&serde_json::to_vec(self)?)
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

/// What keeps the run of this launch away from what is not its own.
fn isolated_by(launch: &Launch) -> IsolatedBy {
    let means = launch.isolation.as_ref().map(|isolation| isolation.means);
    match (&launch.container, means) {
        (Some(container), _) if container.views == Views::default() => IsolatedBy::None,
        (Some(_), _) => IsolatedBy::Container,
        (None, Some(Means::Mounts)) => IsolatedBy::Mounts,
        (None, Some(Means::UserMounts)) => IsolatedBy::UserMounts,
        (None, Some(Means::Landlock)) => IsolatedBy::Landlock,
        (None, None) => IsolatedBy::None,
    }
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
        Reason::NotStarted { error } if error.kind().is_transient() => End::not_started(error.to_string()),
        Reason::NotStarted { error } => End::unstartable(error.to_string()),
    }
}

/// The supervisor's link to the store.
pub struct Keeper {
    run_dir: PathBuf,
    warrant: io::Result<Warrant>,
    kept: RefCell<Option<(Coord, Session)>>,
    open: RefCell<Option<Arc<Open>>>,
    /// Kills this process if it can't end the run in time.
    watchdog: RefCell<Option<Watchdog>>,
    /// How the run ends if it loses its right to go on.
    wanted: RefCell<Option<End>>,
}

/// What a run that may begin has beside its session.
struct Open {
    locks: Coord,
    /// Who holds the run's locks: its session, or one of its own in another store.
    holder: Session,
    /// What the run must have for as long as it lasts.
    held: Vec<Held>,
    /// When its session and locks end.
    ends: LeaseEnds,
    counter: Counter,
    /// Hands in what this process counts.
    _told: JoinSet<Infallible>,
}

impl Keeper {
    /// Reads the warrant of a run. A run without one never starts.
    pub fn of(run_dir: &Path) -> Self {
        Self {
            run_dir: run_dir.to_owned(),
            warrant: Warrant::take(run_dir),
            kept: RefCell::default(),
            open: RefCell::default(),
            watchdog: RefCell::default(),
            wanted: RefCell::default(),
        }
    }

    fn kept(&self) -> Option<(Coord, Session)> {
        self.kept.borrow().clone()
    }

    fn open(&self) -> Option<Arc<Open>> {
        self.open.borrow().clone()
    }

    /// Takes the session over, the locks, opens the counter, and then begins the run itself. Answers what the agent should
    /// know, or the end, if it may not begin.
    async fn take_up(&self) -> Result<Environment, End> {
        let warrant = self
            .warrant
            .as_ref()
            .map_err(|error| End::not_started(format!("its warrant can't be read: {error}")))?;
        let token =
            Token::parse(&warrant.token).ok_or_else(|| End::unstartable("its token can't be read"))?;
        let work = open(&warrant.store).await?;
        let session = work.take_over(&token).await.map_err(|denied| match denied {
            Denied::Lost(_) => End::Lost,
            other => unstartable(&other),
        })?;
        self.kept.replace(Some((work.clone(), session.clone())));
        let env = self.open_counter(warrant, &work, &session).await?;
        match work
            .begin(&warrant.run, Some(warrant.isolation))
            .await
            .map_err(|denied| unstartable(&denied))?
        {
            Begun::Now => Ok(env.with("BELL_TOKEN", &warrant.token)),
            Begun::TooLate => Err(End::Lost),
            Begun::Killed(reason) => Err(End::Killed { reason }),
        }
    }

    /// Takes the locks that the run must have, and lets its agent talk to its stores.
    async fn open_counter(
        &self,
        warrant: &Warrant,
        work: &Coord,
        session: &Session,
    ) -> Result<Environment, End> {
        let (locks, holder) = lock_desk(warrant, work, session).await?;
        let held = take_locks(warrant, &locks, &holder).await?;
        let standing = Standing {
            run: warrant.run.clone(),
            agent: warrant.agent.clone(),
            work: work.clone(),
            session: session.clone(),
            locks: locks.clone(),
            holder: holder.clone(),
            ttl: warrant.ttl,
            runs: Place::of(&warrant.project).runs(),
        };
        let desk = Desk::new(standing, ProjectCallees(warrant.project.clone()));
        let (counter, mut env) = Counter::open(desk, &self.run_dir)
            .map_err(|error| End::not_started(format!("its socket can't be opened: {error}")))?;
        if let [held] = held.as_slice() {
            env = env.with("BELL_LOCK_FENCE", held.fence().to_string());
        }
        let ends = LeaseEnds::of([session, &holder], &held);
        let watchdog = ends.watchdog();
        let watchdog =
            watchdog.map_err(|error| End::not_started(format!("its watchdog can't be started: {error}")))?;
        self.watchdog.replace(Some(watchdog));
        let mut told = JoinSet::new();
        told.spawn(tallies::keep_handing_in(Place::of(&warrant.project)));
        self.open.replace(Some(Arc::new(Open { locks, holder, held, ends, counter, _told: told })));
        Ok(env)
    }

    /// Ends what the run had beside its session. What can't be told to a store that does not answer lapses there.
    async fn let_go(&self, session: &Session, open: Arc<Open>) {
        open.counter.desk().end_sessions().await;
        while open.holder.id() != session.id() && !open.holder.is_over() {
            match open.locks.end(&open.holder).await {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "could not end the session of a run's locks"),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        // The locks have ended with their session: nothing is left to be released one by one.
        if let Some(open) = Arc::into_inner(open) {
            open.held.into_iter().for_each(|held| drop(held.forget()));
        }
    }
}

/// Opens a store that is there: a new one in its place would know nothing of the run.
async fn open(url: &str) -> Result<Coord, End> {
    if !bell_locks::open::exists(url).map_err(|denied| unstartable(&denied))? {
        return Err(End::not_started(format!("the store {} is gone", bell_locks::open::redacted(url))));
    }
    Ok(Coord::new(bell_locks::open::open_store(url).await.map_err(|denied| unstartable(&denied))?))
}

/// A store that does not answer says nothing about the agent.
fn unstartable(denied: &Denied) -> End {
    match denied {
        Denied::Unavailable(_) => End::not_started(denied.to_string()),
        _ => End::unstartable(denied.to_string()),
    }
}

/// Where the run's locks are, and who holds them: its own session, unless the project keeps locks in another store.
async fn lock_desk(warrant: &Warrant, work: &Coord, session: &Session) -> Result<(Coord, Session), End> {
    let Some(url) = &warrant.lock_store else { return Ok((work.clone(), session.clone())) };
    let locks = open(url).await?;
    let holder = match warrant.holder.as_deref().and_then(Token::parse) {
        Some(token) => locks.take_over(&token).await.map_err(|denied| match denied {
            Denied::Lost(_) => End::not_started("the session that held its locks has ended"),
            other => unstartable(&other),
        })?,
        None => Session::new(session.who().clone(), Keep::Attended).map_err(|denied| unstartable(&denied))?,
    };
    Ok((locks, holder))
}

/// Takes what the agent must have before it starts, and keeps it for as long as the run lasts.
async fn take_locks(warrant: &Warrant, locks: &Coord, holder: &Session) -> Result<Vec<Held>, End> {
    if warrant.locks.is_empty() {
        return Ok(Vec::new());
    }
    let ask = Ask::all(warrant.locks.clone()).ttl(warrant.ttl);
    let leases = locks.acquire(holder, &ask).await.map_err(|denied| match denied {
        Denied::Busy(busy) => End::Busy { reason: Denied::Busy(busy).to_string() },
        other => unstartable(&other),
    })?;
    let backend: Arc<dyn LockBackend> = Arc::new(StoreLocks::new(Arc::clone(locks.store())));
    Ok(leases.into_iter().map(|lease| Held::new(&backend, holder, lease)).collect())
}

#[async_trait(?Send)]
impl Hooks for Keeper {
    async fn starting(&self) -> Result<Environment, Error> {
        match self.take_up().await {
            Ok(env) => Ok(env),
            Err(end) => {
                let kind = match &end {
                    // Its claim lapsed, which others have recorded.
                    End::Lost => Kind::Gone,
                    end if end.is_transient() => Kind::Unavailable,
                    _ => Kind::Denied,
                };
                let error = Error::new(kind, format!("start it: {end}"));
                self.wanted.replace(Some(end.clone()));
                Err(error.hint(end.advice()))
            }
        }
    }

    async fn started(&self, _pid: i32) {}

    async fn revoked(&self) -> String {
        let (Some((work, session)), Some(open), Ok(warrant)) = (self.kept(), self.open(), &self.warrant)
        else {
            return std::future::pending().await;
        };
        let end = tokio::select! {
            () = session.over() => End::Lost,
            () = open.holder.over() => End::Lost,
            (held, loss) = any_lost(&open.held) => lost_lock(&open.holder, held, &loss),
            end = told_to_end(&work, &warrant.run) => end,
            code = open.counter.desk().exit_wanted() => by_its_own_wish(code),
        };
        let why = end.to_string();
        self.wanted.replace(Some(end));
        why
    }

    fn deadline(&self) -> Option<Duration> {
        self.open()?.ends.kill_by()
    }

    async fn ending(&self, _reason: &Reason) {
        if let Some(open) = self.open() {
            open.counter.desk().revoke();
        }
    }

    fn killing(&self) {
        self.watchdog.take();
    }

    async fn ended(&self, exit: &Exit) {
        let open = self.open.take();
        if let Some(open) = &open {
            open.counter.desk().revoke();
        }
        // A run that was refused before it could reach the store is ended by the daemon that started it.
        let (Some((work, session)), Ok(warrant)) = (self.kept(), &self.warrant) else { return };
        let wanted = self.wanted.borrow().clone();
        let end = match (&exit.reason, wanted) {
            (Reason::Revoked { .. } | Reason::NotStarted { .. }, Some(end)) => end,
            (reason, _) => end_of(reason),
        };
        while let Err(error) = work.finish(&warrant.run, &end).await {
            tracing::warn!(run = %warrant.run, %error, "could not record the end of a run");
            tokio::time::sleep(RETRY_AFTER).await;
        }
        if let Some(open) = open {
            self.let_go(&session, open).await;
        }
        tallies::hand_in(&Place::of(&warrant.project));
    }
}

/// The end of a run that asked for it.
fn by_its_own_wish(code: u8) -> End {
    if code == 0 { End::Completed } else { End::Failed { code: i32::from(code) } }
}

/// The end of a run that has lost a lock which it must have.
fn lost_lock(holder: &Session, held: &Held, loss: &Loss) -> End {
    let Loss::Broken(reason) = loss else { return End::Lost };
    let by = holder.broken_by(held.key(), held.fence()).unwrap_or_else(|| "an operator".to_owned());
    End::Broken { reason: format!("{by} broke {}: {reason}", held.key()) }
}

/// Returns when a lock that the run must have is lost. One that the agent itself gave back is not.
async fn any_lost(held: &[Held]) -> (&Held, Loss) {
    let mut losses: Vec<_> =
        held.iter().map(|held| Box::pin(async move { (held, held.lost().await) })).collect();
    poll_fn(|context| {
        let mut lost = Poll::Pending;
        losses.retain_mut(|loss| match loss.as_mut().poll(context) {
            Poll::Ready((_, Loss::NotHolder(_))) => false,
            Poll::Ready(found) => {
                lost = Poll::Ready(found);
                false
            }
            Poll::Pending => true,
        });
        lost
    })
    .await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_that_has_killed_its_run_has_no_watchdog_any_more_however_long_its_store_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::of(folder.path());
        keeper.watchdog.replace(Some(Watchdog::start(|| None).unwrap()));
        keeper.killing();
        assert!(keeper.watchdog.borrow().is_none());
    }
}
