//! Claims of jobs whose agent declares locks, and jobs that wait for such locks in their queue.

use std::time::Duration;

use bell_core::acquire::{Acquire, Call, canonical_order};
use bell_core::deadlock::{Cycle, would_wait_for_its_caller};
use bell_core::key::Key;
use bell_core::lock::{Mode, Ttl};
use bell_core::session::SESSION_TTL;
use bell_core::view::{Changes, Missing, View};
use bell_core::work::agent::AgentName;
use bell_core::work::claim::{Locks, claim_job};
use bell_core::work::job::{Job, JobId};
use bell_core::work::line::Caps;
use bell_core::work::lock_wait::{Refusal, WaitBegun, Waiting, begin_lock_wait, end_lock_wait, refuse_locks};
use bell_core::work::row::{Row, RowId};
use bell_core::work::run::RunId;

use super::running::{Work, identity, new_run};
use super::wall_now;
use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;
use crate::session::{Keep, Session, new_request};

/// The locks that an agent declares, for one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    /// The keys.
    pub keys: Vec<Key>,
    /// How long each renewal makes them last.
    pub ttl: Ttl,
}

/// Where the locks of a job come from.
#[derive(Clone, Copy)]
pub enum LocksOf<'a> {
    /// They are taken in the commit that claims the job; others may have them.
    Take(&'a Declared),
    /// This session waited for them in this store, or for others in another one.
    Waited(&'a Session),
    /// It needs none, or its supervisor takes them.
    None,
}

impl Coord {
    /// The first jobs in the queue of an agent, in order, with what is stored of each.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn first_queued(&self, agent: &AgentName, limit: usize) -> Result<Vec<(JobId, Job)>, Denied> {
        let ids = self.queued(agent, limit).await?;
        let mut loaded = Loaded::default();
        let rows = ids.iter().cloned().map(RowId::Job).collect();
        self.load(&mut loaded, &Missing { rows, ..Missing::default() }).await?;
        let job = |id: &JobId| match loaded.view.rows.get(&RowId::Job(id.clone()))?.get()? {
            Row::Job(job) => Some((id.clone(), job.clone())),
            _ => None,
        };
        Ok(ids.iter().filter_map(job).collect())
    }

    /// Claims this job, wherever it stands in its queue, for a run on `node`.
    ///
    /// Dropped half-way, or never begun, the claim lapses with its session after 15 s, and the job is the first in the
    /// queue again.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn claim_job(
        &self,
        id: &JobId,
        agent: &AgentName,
        caps: Caps,
        node: &str,
        locks: LocksOf<'_>,
    ) -> Result<Work, Denied> {
        let (run, session) = match locks {
            LocksOf::Waited(session) => (run_of(session)?, session.clone()),
            LocksOf::Take(_) | LocksOf::None => {
                let run = new_run(agent);
                let session = Session::new(identity(agent, &run, node), Keep::Attended)?;
                (run, session)
            }
        };
        let request = new_request();
        loop {
            let runner = self.runner(&run, &session, node).await?;
            let locks = match locks {
                LocksOf::Take(declared) => Locks::Take(Acquire {
                    session: session.id().clone(),
                    request: request.clone(),
                    keys: canonical_order(declared.keys.clone()),
                    mode: Mode::Exclusive,
                    ttl: declared.ttl,
                    wait: Duration::ZERO,
                    new_session: Some(runner.born.clone().into()),
                    call: None,
                }),
                LocksOf::Waited(_) => Locks::Held,
                LocksOf::None => Locks::None,
            };
            let decide = |view: &View| claim_job(view, id, &runner, caps, &locks);
            let done = self.transact(Loaded::default(), decide).await?;
            if let Some(work) = self.claimed(done.answer, run.clone(), session.clone()).await? {
                return Ok(work);
            }
        }
    }

    /// Whether nothing more of an agent may start: it is paused, or all its runners are taken by those who live.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn occupied(&self, agent: &AgentName, caps: Caps) -> Result<bool, Denied> {
        loop {
            let pool = self.pool().await?;
            if pool.pause_of(agent).is_some() {
                return Ok(true);
            }
            let Some(slots) = caps.in_the_way(&pool, agent) else { return Ok(false) };
            let count = slots.len();
            if self.living(slots).await?.len() == count {
                return Ok(true);
            }
        }
    }

    /// Stores a session that waits for the locks of a job of this agent. It lives by the heartbeats of its owner
    /// ([`Self::prolong`]), for 15 s after each; whoever has its token goes on with it.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn open_waiting(&self, agent: &AgentName, node: &str) -> Result<Session, Denied> {
        self.open_session(identity(agent, &new_run(agent), node), Some(SESSION_TTL)).await
    }

    /// Notes that a session waits for the locks of a job, and for how long it may.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn begin_lock_wait(
        &self,
        id: &JobId,
        session: &Session,
        keys: &[Key],
        limit: Duration,
    ) -> Result<WaitBegun, Denied> {
        let waiting = Waiting { session: session.id().clone(), keys: keys.to_vec(), limit, at: wall_now() };
        Ok(self.transact(Loaded::default(), |view| begin_lock_wait(view, id, &waiting)).await?.answer)
    }

    /// The cycle that a request for these keys would close, made for a run that was called; `None`: there is none now.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn would_deadlock(&self, keys: &[Key], call: &Call) -> Result<Option<Cycle>, Denied> {
        let find = |view: &View| {
            would_wait_for_its_caller(view, keys, call).map(|cycle| (cycle, Changes::default()))
        };
        let seen = self.transact(Loaded::default(), find).await?;
        if seen.answer.is_none() {
            return Ok(None);
        }
        // Seen in several reads; only a cycle that exists at one moment counts.
        Ok(self.confirm(seen.loaded, find).await?.0)
    }

    /// Notes that a session no longer waits for the locks of a job, which stays in its place.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn end_lock_wait(&self, id: &JobId, session: &Session) -> Result<bool, Denied> {
        Ok(self.transact(Loaded::default(), |view| end_lock_wait(view, id, session.id())).await?.answer)
    }

    /// Ends a queued job that does not get its locks, for this reason. Not if another session than this one waits for it.
    /// Whether it did.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn refuse_locks(
        &self,
        id: &JobId,
        session: Option<&Session>,
        reason: &str,
        refusal: Refusal,
    ) -> Result<bool, Denied> {
        let at = wall_now();
        let session = session.map(Session::id);
        let decide = |view: &View| refuse_locks(view, id, session, reason, refusal, at);
        Ok(self.transact(Loaded::default(), decide).await?.answer)
    }
}

/// The run that a session was made for.
fn run_of(session: &Session) -> Result<RunId, Denied> {
    let run = session.who().run.as_deref();
    run.map(RunId::from).ok_or_else(|| Denied::Invalid("this session was made for no run".to_owned()))
}
