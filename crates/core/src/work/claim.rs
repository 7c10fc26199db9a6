//! Who may run next: the oldest job of an agent, if a runner is free.

use std::time::Duration;

use super::Wall;
use super::agent::AgentName;
use super::job::{Job, JobId, State};
use super::line::{Caps, Pause, Place, Slot};
use super::row::RowId;
use super::run::{IsolatedBy, Run, RunId};
use crate::acquire::{Acquire, Acquired, Busy, acquire};
use crate::session::{Session, SessionId};
use crate::view::{Changes, Decided, Draft, View};

/// Somebody who can run a job of an agent now.
#[derive(Clone, Debug)]
pub struct Runner {
    /// What the run will be called. Asked again under this name, it gets the same job.
    pub run: RunId,
    /// Who the run will be to the locks.
    pub session: SessionId,
    /// The session's first record.
    pub born: Session,
    /// The machine it will run on.
    pub node: String,
    /// When.
    pub at: Wall,
}

/// What comes of asking for work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// This job is yours.
    Job {
        /// Which.
        id: JobId,
        /// What it is.
        job: Box<Job>,
    },
    /// Nothing waits.
    Idle,
    /// Nothing may start.
    Paused(Pause),
    /// The first in the queue could not be started a moment ago: ask again after this. The others keep their order behind it.
    Later(Duration),
    /// Others have a lock that it must have.
    Locked(Box<Busy>),
    /// This commit serves others who share a key; ask once more after it.
    Again,
    /// All runners are taken as far as the records go: see whether these still live, then ask again.
    Occupied(Vec<Slot>),
}

/// What comes of beginning a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begun {
    /// Go on.
    Now,
    /// Its session has ended, or it was given up: another may be at it.
    TooLate,
    /// Somebody wants it to end, in these words.
    Killed(String),
}

/// Marks a claimed run as begun. From here on it may have done something, so it is not quietly done again.
///
/// # Errors
/// What it has not seen yet.
pub fn begin(view: &View, id: &RunId, isolation: Option<IsolatedBy>, at: Wall) -> Decided<(Begun, Changes)> {
    let mut draft = Draft::new(view);
    let Some(run) = draft.get::<Run>(id)?.filter(|run| run.ended.is_none()).cloned() else {
        return Ok((Begun::TooLate, Changes::default()));
    };
    if !draft.is_alive(&run.session)? {
        return Ok((Begun::TooLate, Changes::default()));
    }
    if let Some(reason) = run.kill {
        return Ok((Begun::Killed(reason), Changes::default()));
    }
    draft.put(id, Run { begun: run.begun.or(Some(at)), isolation, ..run });
    Ok((Begun::Now, draft.into_changes()))
}

/// Gives the oldest job of `agent` to a runner.
///
/// # Errors
/// What it has not seen yet.
pub fn claim(view: &View, agent: &AgentName, runner: &Runner, caps: Caps) -> Decided<(Claimed, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_rows([RowId::Pool, RowId::Line(agent.clone()), RowId::Run(runner.run.clone())])?;
    if let Some(claimed) = draft.own_claim(runner)? {
        return Ok((claimed, Changes::default()));
    }
    if draft.line(agent)?.waiting == 0 {
        return Ok((Claimed::Idle, Changes::default()));
    }
    if let Some(held_back) = draft.held_back(agent, caps)? {
        return Ok((held_back, Changes::default()));
    }
    let Some((place, id)) = draft.oldest(agent)? else { return Ok((Claimed::Idle, Changes::default())) };
    let Some(job) = draft.get::<Job>(&id)?.cloned() else { return Ok((Claimed::Idle, Changes::default())) };
    if let Some(wait) = job.start_wait(view.now) {
        return Ok((Claimed::Later(wait), Changes::default()));
    }
    let claimed = draft.give(runner, place, id, job)?;
    draft.set_session(&runner.session, Some(runner.born.clone()));
    Ok((claimed, draft.into_changes()))
}

/// The locks that a runner must have for the job it claims.
#[derive(Clone, Debug)]
pub enum Locks {
    /// It takes these in the commit that claims the job: all of them, or the job stays in the queue.
    Take(Acquire),
    /// It has them: its session, which was stored before, held or awaited them. Or they are in another store.
    Held,
    /// It needs none.
    None,
}

/// Gives this very job to a runner, wherever it stands in its queue.
///
/// # Errors
/// What it has not seen yet.
pub fn claim_job(
    view: &View,
    id: &JobId,
    runner: &Runner,
    caps: Caps,
    locks: &Locks,
) -> Decided<(Claimed, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_rows([RowId::Pool, RowId::Job(id.clone()), RowId::Run(runner.run.clone())])?;
    if let Some(claimed) = draft.own_claim(runner)? {
        return Ok((claimed, Changes::default()));
    }
    let Some(job) = draft.get::<Job>(id)?.cloned() else { return Ok((Claimed::Idle, Changes::default())) };
    let State::Queued { place } = job.state else { return Ok((Claimed::Idle, Changes::default())) };
    if draft.awaits_elsewhere(&job, Some(&runner.session))? {
        return Ok((Claimed::Idle, Changes::default()));
    }
    if let Some(held_back) = draft.held_back(&job.spec.agent, caps)? {
        return Ok((held_back, Changes::default()));
    }
    if let Some(wait) = job.start_wait(view.now) {
        return Ok((Claimed::Later(wait), Changes::default()));
    }
    match locks {
        Locks::Take(ask) => {
            let (acquired, changes) = acquire(view, ask)?;
            match acquired {
                Acquired::Granted(_) => draft.absorb(changes),
                Acquired::Again => return Ok((Claimed::Again, changes)),
                Acquired::Busy(busy) => return Ok((Claimed::Locked(Box::new(busy)), changes)),
                // A new session that does not wait: it can't have ended, be queued, or have asked before.
                Acquired::Queued(_)
                | Acquired::Deadlock(_)
                | Acquired::SessionEnded
                | Acquired::Upgrade(_) => return Ok((Claimed::Idle, Changes::default())),
            }
        }
        Locks::Held => {
            if !draft.is_alive(&runner.session)? {
                return Ok((Claimed::Idle, Changes::default()));
            }
            let Some(session) = draft.session(&runner.session)?.cloned() else {
                return Ok((Claimed::Idle, Changes::default()));
            };
            // As long as a claim lasts until its supervisor takes it over.
            let expires = Some(view.now + session.ttl());
            draft.set_session(&runner.session, Some(Session { expires, ..session }));
        }
        Locks::None => draft.set_session(&runner.session, Some(runner.born.clone())),
    }
    let claimed = draft.give(runner, place, id.clone(), job)?;
    Ok((claimed, draft.into_changes()))
}

impl Draft<'_> {
    /// The claim that this runner has made before, and whose answer was lost.
    fn own_claim(&self, runner: &Runner) -> Decided<Option<Claimed>> {
        let Some(run) = self.get::<Run>(&runner.run)? else { return Ok(None) };
        let id = run.job.clone();
        let job = self.get::<Job>(&id)?.cloned().map(Box::new);
        Ok(Some(job.map_or(Claimed::Idle, |job| Claimed::Job { id, job })))
    }

    /// Why nothing of the agent may start now.
    fn held_back(&self, agent: &AgentName, caps: Caps) -> Decided<Option<Claimed>> {
        let pool = self.pool()?;
        if let Some(pause) = pool.pause_of(agent) {
            return Ok(Some(Claimed::Paused(pause.clone())));
        }
        Ok(caps.in_the_way(&pool, agent).map(Claimed::Occupied))
    }

    /// Takes a job out of its queue for a run that begins.
    fn give(&mut self, runner: &Runner, place: Place, id: JobId, job: Job) -> Decided<Claimed> {
        self.unqueue(&job.spec, place)?;
        let agent = job.spec.agent.clone();
        let job = Job {
            state: State::Running { run: runner.run.clone() },
            last_run: Some(runner.run.clone()),
            runs: job.runs + 1,
            not_before: None,
            lock_wait: None,
            ..job
        };
        self.put(&id, job.clone());
        self.put(&runner.run, run_of(runner, &agent, &id, &job));
        let mut pool = self.pool()?;
        pool.slots.push(Slot { agent, run: runner.run.clone(), session: runner.session.clone() });
        self.put(&(), pool);
        Ok(Claimed::Job { id, job: Box::new(job) })
    }
}

fn run_of(runner: &Runner, agent: &AgentName, id: &JobId, job: &Job) -> Run {
    Run {
        job: id.clone(),
        agent: agent.clone(),
        attempt: job.runs,
        session: runner.session.clone(),
        node: runner.node.clone(),
        claimed: runner.at,
        begun: None,
        ended: None,
        status: None,
        returned: None,
        kill: None,
        isolation: None,
        wants_rerun: false,
    }
}
