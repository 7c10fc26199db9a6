//! Taking jobs out of the queue without running them, and bringing them back.

use super::Wall;
use super::agent::AgentName;
use super::job::{Fate, Job, JobId, State};
use super::row::{Event, RowId, What};
use crate::view::{Changes, Decided, Draft, View};

/// Jobs shelved in one commit: each changes up to five records, and a commit takes 125.
const BATCH: u32 = 20;

/// Takes the first jobs out of an agent's queue, as cleared. Answers which; fewer than there are need another
/// call.
///
/// # Errors
/// What it has not seen yet.
pub fn clear(view: &View, agent: &AgentName, at: Wall) -> Decided<(Vec<JobId>, Changes)> {
    let mut draft = Draft::new(view);
    let mut cleared = Vec::new();
    for _ in 0..BATCH {
        let Some((place, job)) = draft.oldest(agent)? else { break };
        draft.shelve(agent, place, &job, Fate::Cleared, at)?;
        cleared.push(job);
    }
    Ok((cleared, draft.into_changes()))
}

/// What comes of cancelling or replaying a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// It was done.
    Done,
    /// It is in no state for that.
    Not(State),
    /// The queue is full, and a job that is brought back must not cost another its place.
    Full,
    /// Nobody knows such a job.
    Unknown,
}

/// Takes a job out of the queue, or keeps it from being tried again.
///
/// # Errors
/// What it has not seen yet.
pub fn cancel(view: &View, id: &JobId, at: Wall) -> Decided<(Moved, Changes)> {
    let mut draft = Draft::new(view);
    let Some(job) = draft.get::<Job>(id)?.cloned() else { return Ok((Moved::Unknown, Changes::default())) };
    match job.state {
        State::Queued { place } => draft.shelve(&job.spec.agent, place, id, Fate::Cancelled, at)?,
        State::Delayed { due } => {
            let event = Event::of_job(&job.spec.agent, id, What::Shelved { fate: Fate::Cancelled });
            draft.set_row(RowId::Delay(due, id.clone()), None);
            draft.put(id, Job { state: State::Over { fate: Fate::Cancelled, at }, ..job });
            draft.note(at, id.as_str(), event);
        }
        State::Running { .. } | State::Over { .. } => return Ok((Moved::Not(job.state), Changes::default())),
    }
    Ok((Moved::Done, draft.into_changes()))
}

/// Queues a job again that is over, if fewer than `size` wait.
///
/// # Errors
/// What it has not seen yet.
pub fn replay(view: &View, id: &JobId, size: u32, at: Wall) -> Decided<(Moved, Changes)> {
    let mut draft = Draft::new(view);
    let Some(job) = draft.get::<Job>(id)?.cloned() else { return Ok((Moved::Unknown, Changes::default())) };
    let State::Over { fate, at: since } = job.state else {
        return Ok((Moved::Not(job.state), Changes::default()));
    };
    if draft.line(&job.spec.agent)?.waiting >= size {
        return Ok((Moved::Full, Changes::default()));
    }
    let place = draft.queue_last(id, &job.spec)?;
    let event = Event::of_job(&job.spec.agent, id, What::Replayed);
    draft.put(id, Job { state: State::Queued { place }, reruns: 0, failures: 0, returned: None, ..job });
    if fate.is_undone() {
        draft.set_row(RowId::Undone(since, id.clone()), None);
    }
    draft.note(at, id.as_str(), event);
    Ok((Moved::Done, draft.into_changes()))
}
