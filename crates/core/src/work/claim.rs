//! Who may run next: the oldest job of an agent, if a runner is free.

use std::time::Duration;

use super::Wall;
use super::agent::AgentName;
use super::job::{Job, JobId, State};
use super::line::{Caps, Pause, Slot};
use super::row::RowId;
use super::run::{Run, RunId};
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
pub fn begin(view: &View, id: &RunId, at: Wall) -> Decided<(Begun, Changes)> {
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
    draft.put(id, Run { begun: run.begun.or(Some(at)), ..run });
    Ok((Begun::Now, draft.into_changes()))
}

/// Gives the oldest job of `agent` to a runner.
///
/// # Errors
/// What it has not seen yet.
pub fn claim(view: &View, agent: &AgentName, runner: &Runner, caps: Caps) -> Decided<(Claimed, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_rows([RowId::Pool, RowId::Line(agent.clone()), RowId::Run(runner.run.clone())])?;
    if let Some(run) = draft.get::<Run>(&runner.run)? {
        // Its own claim, whose answer was lost.
        let id = run.job.clone();
        let job = draft.get::<Job>(&id)?.cloned().map(Box::new);
        return Ok((job.map_or(Claimed::Idle, |job| Claimed::Job { id, job }), Changes::default()));
    }
    let mut pool = draft.pool()?;
    if draft.line(agent)?.waiting == 0 {
        return Ok((Claimed::Idle, Changes::default()));
    }
    if let Some(pause) = pool.pause_of(agent) {
        return Ok((Claimed::Paused(pause.clone()), Changes::default()));
    }
    if let Some(occupants) = caps.in_the_way(&pool, agent) {
        return Ok((Claimed::Occupied(occupants), Changes::default()));
    }
    let Some((place, id)) = draft.oldest(agent)? else { return Ok((Claimed::Idle, Changes::default())) };
    let Some(job) = draft.get::<Job>(&id)?.cloned() else { return Ok((Claimed::Idle, Changes::default())) };
    if let Some(wait) = job.start_wait(view.now) {
        return Ok((Claimed::Later(wait), Changes::default()));
    }
    draft.unqueue(&job.spec, place)?;
    let job = Job {
        state: State::Running { run: runner.run.clone() },
        last_run: Some(runner.run.clone()),
        runs: job.runs + 1,
        not_before: None,
        ..job
    };
    draft.put(&id, job.clone());
    draft.put(&runner.run, run_of(runner, agent, &id, &job));
    pool.slots.push(Slot { agent: agent.clone(), run: runner.run.clone(), session: runner.session.clone() });
    draft.put(&(), pool);
    draft.set_session(&runner.session, Some(runner.born.clone()));
    Ok((Claimed::Job { id, job: Box::new(job) }, draft.into_changes()))
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
        wants_rerun: false,
    }
}
