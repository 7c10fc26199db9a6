//! Queued jobs that wait for the locks their agent declares: which session waits for a job, and what comes of it.
//!
//! The session itself waits in the queues of its keys, as any other does. A job that waits has no run and takes no slot.

use std::time::Duration;

use super::Wall;
use super::job::{Fate, Job, JobId, LockWait, State};
use super::line::Place;
use super::row::{Event, Row, RowId, Undone, What};
use super::run::End;
use crate::key::Key;
use crate::session::SessionId;
use crate::view::{Changes, Decided, Draft, View};

/// A session that is about to wait for the locks of a job.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The session. It is stored.
    pub session: SessionId,
    /// What it waits for.
    pub keys: Vec<Key>,
    /// How long the job may wait in all.
    pub limit: Duration,
    /// When.
    pub at: Wall,
}

/// What comes of asking to wait for the locks of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitBegun {
    /// The session waits for the job, for this long at most.
    Yours(Duration),
    /// Another session that lives waits for it.
    Elsewhere,
    /// The job is not queued any more.
    Gone,
}

/// Notes that a session waits for the locks of a queued job. A job that waited before, with a session that has ended,
/// goes on waiting: its limit counts from when it began to.
///
/// # Errors
/// What it has not seen yet.
pub fn begin_lock_wait(view: &View, id: &JobId, waiting: &Waiting) -> Decided<(WaitBegun, Changes)> {
    let mut draft = Draft::new(view);
    let Some((job, _)) = draft.queued_job(id)? else { return Ok((WaitBegun::Gone, Changes::default())) };
    if draft.awaits_elsewhere(&job, Some(&waiting.session))? {
        return Ok((WaitBegun::Elsewhere, Changes::default()));
    }
    let since = job.lock_wait.as_ref().map_or(waiting.at, |before| before.since);
    let until = job.lock_wait.as_ref().map_or(view.now + waiting.limit, |before| before.until);
    // A time that is too far away was meant on a clock that was set back since.
    let until = until.min(view.now + waiting.limit);
    let lock_wait = LockWait { session: waiting.session.clone(), keys: waiting.keys.clone(), since, until };
    draft.put(id, Job { lock_wait: Some(lock_wait), ..job });
    Ok((WaitBegun::Yours(until.since(view.now)), draft.into_changes()))
}

/// Ends the wait of a session for the locks of a job, which stays in its place. Whether there was such a wait.
///
/// # Errors
/// What it has not seen yet.
pub fn end_lock_wait(view: &View, id: &JobId, session: &SessionId) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let Some((job, _)) = draft.queued_job(id)? else { return Ok((false, Changes::default())) };
    if job.lock_wait.as_ref().is_none_or(|wait| wait.session != *session) {
        return Ok((false, Changes::default()));
    }
    draft.put(id, Job { lock_wait: None, ..job });
    Ok((true, draft.into_changes()))
}

/// What becomes of a job that does not get its locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is over, and nothing has to be done about it.
    Skip,
    /// It is a dead letter.
    DeadLetter,
}

/// Ends a queued job that does not get its locks, unless another session than this one waits for it. Whether it did.
///
/// # Errors
/// What it has not seen yet.
pub fn refuse_locks(
    view: &View,
    id: &JobId,
    session: Option<&SessionId>,
    reason: &str,
    refusal: Refusal,
    at: Wall,
) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let Some((job, place)) = draft.queued_job(id)? else { return Ok((false, Changes::default())) };
    if draft.awaits_elsewhere(&job, session)? {
        return Ok((false, Changes::default()));
    }
    let agent = job.spec.agent.clone();
    let fate = Fate::Ended { end: End::Busy { reason: reason.to_owned() } };
    draft.unqueue(&job.spec, place)?;
    draft.put(id, Job { state: State::Over { fate: fate.clone(), at }, lock_wait: None, ..job });
    if refusal == Refusal::DeadLetter {
        let undone = Undone { agent: agent.clone(), fate: fate.clone() };
        draft.set_row(RowId::Undone(at, id.clone()), Some(Row::Undone(undone)));
    }
    draft.note(at, id.as_str(), Event::of_job(&agent, id, What::Shelved { fate }));
    Ok((true, draft.into_changes()))
}

impl Draft<'_> {
    fn queued_job(&self, id: &JobId) -> Decided<Option<(Job, Place)>> {
        let Some(job) = self.get::<Job>(id)?.cloned() else { return Ok(None) };
        let State::Queued { place } = job.state else { return Ok(None) };
        Ok(Some((job, place)))
    }

    /// Whether another session than this one waits for the locks of a job, and lives.
    pub(super) fn awaits_elsewhere(&self, job: &Job, session: Option<&SessionId>) -> Decided<bool> {
        match &job.lock_wait {
            Some(wait) if Some(&wait.session) != session => self.is_alive(&wait.session),
            _ => Ok(false),
        }
    }
}
