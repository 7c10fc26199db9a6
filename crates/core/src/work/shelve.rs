//! Taking jobs out of the queue without running them, and bringing them back.

use super::Wall;
use super::agent::AgentName;
use super::job::{Fate, Job, JobId, State};
use super::row::{Event, RowId, What};
use crate::view::{Changes, Decided, Draft, View};

/// Jobs shelved or replayed in one commit: each changes up to five records, and a commit takes 125.
pub const BATCH: usize = 20;

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
    let State::Over { fate, at: since } = job.state.clone() else {
        return Ok((Moved::Not(job.state), Changes::default()));
    };
    if draft.line(&job.spec.agent)?.waiting >= size {
        return Ok((Moved::Full, Changes::default()));
    }
    draft.queue_again(id, job, at)?;
    if fate.is_undone() {
        draft.set_row(RowId::Undone(since, id.clone()), None);
    }
    Ok((Moved::Done, draft.into_changes()))
}

/// A dead letter as it was listed. The time tells it from a later dead letter of the same job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// The job.
    pub job: JobId,
    /// Since when it is a dead letter.
    pub since: Wall,
}

/// What comes of replaying a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replayed {
    /// It is queued.
    Queued,
    /// The queue of its agent is full; it stays a dead letter.
    Full,
    /// Its agent does not exist any more; it stays a dead letter.
    NoAgent,
    /// It is no dead letter, or a later one: it was replayed or forgotten after it was listed.
    Gone,
}

/// Replays up to [`BATCH`] dead letters, in this order; the rest is not looked at. `size` is the queue size of an
/// agent, if that agent exists. One answer for each letter.
///
/// Only the dead letter that was listed is replayed, so the same list can be sent again.
///
/// # Errors
/// What it has not seen yet.
pub fn replay_batch(
    view: &View,
    letters: &[DeadLetter],
    size: impl Fn(&AgentName) -> Option<u32>,
    at: Wall,
) -> Decided<(Vec<Replayed>, Changes)> {
    let letters = &letters[..letters.len().min(BATCH)];
    let mut draft = Draft::new(view);
    // All jobs in one read, instead of one read each.
    draft.need_rows(letters.iter().map(|letter| RowId::Job(letter.job.clone())))?;
    let mut replayed = Vec::with_capacity(letters.len());
    for letter in letters {
        replayed.push(draft.replay_letter(letter, &size, at)?);
    }
    Ok((replayed, draft.into_changes()))
}

impl Draft<'_> {
    fn replay_letter(
        &mut self,
        letter: &DeadLetter,
        size: &impl Fn(&AgentName) -> Option<u32>,
        at: Wall,
    ) -> Decided<Replayed> {
        let Some(job) = self.get::<Job>(&letter.job)?.cloned() else { return Ok(Replayed::Gone) };
        match &job.state {
            State::Over { fate, at } if fate.is_undone() && *at == letter.since => {}
            _ => return Ok(Replayed::Gone),
        }
        let Some(size) = size(&job.spec.agent) else { return Ok(Replayed::NoAgent) };
        if self.line(&job.spec.agent)?.waiting >= size {
            return Ok(Replayed::Full);
        }
        self.queue_again(&letter.job, job, at)?;
        self.set_row(RowId::Undone(letter.since, letter.job.clone()), None);
        Ok(Replayed::Queued)
    }

    fn queue_again(&mut self, id: &JobId, job: Job, at: Wall) -> Decided<()> {
        let place = self.queue_last(id, &job.spec)?;
        let event = Event::of_job(&job.spec.agent, id, What::Replayed);
        let state = State::Queued { place };
        let fresh = Job {
            reruns: 0,
            failures: 0,
            not_started: 0,
            not_before: None,
            lock_wait: None,
            returned: None,
            state,
            ..job
        };
        self.put(id, fresh);
        self.note(at, id.as_str(), event);
        Ok(())
    }
}
