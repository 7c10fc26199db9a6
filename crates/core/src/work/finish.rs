//! The end of a run and what follows from it, in one commit: its locks end, its slot is free, its job is over or
//! goes on, and history says so.

use super::Wall;
use super::job::{Fate, Job, JobId, State, start_backoff};
use super::row::{Event, Row, RowId, Then, Undone, What};
use super::run::{End, Ended, Run, RunId};
use crate::end::end_session;
use crate::key::Key;
use crate::view::{Changes, Decided, Draft, View};

/// What comes of ending a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finished {
    /// It has ended by this.
    Now {
        /// How: as said, or as lost.
        end: End,
        /// What follows.
        then: Then,
    },
    /// It had ended before, in that way: what is said later about it counts for nothing. Only proof that the agent of a lost
    /// run never ran puts its job back.
    Before(End),
    /// Nobody knows such a run.
    Unknown,
}

/// Ends a run: its session with the locks on `held` (leases on other keys end with it all the same), its
/// slot, and its job, unless that is to be run again.
///
/// # Errors
/// What it has not seen yet.
pub fn finish(view: &View, id: &RunId, end: End, held: &[Key], at: Wall) -> Decided<(Finished, Changes)> {
    let mut draft = Draft::new(view);
    let Some(run) = draft.get::<Run>(id)?.cloned() else {
        return Ok((Finished::Unknown, Changes::default()));
    };
    if let Some(ended) = &run.ended {
        if ended.end == End::Lost && end.is_transient() {
            draft.replay_lost(id, &run, at)?;
            return Ok((Finished::Before(End::Lost), draft.into_changes()));
        }
        return Ok((Finished::Before(ended.end.clone()), Changes::default()));
    }
    draft.need_rows([RowId::Pool, RowId::Line(run.agent.clone()), RowId::Job(run.job.clone())])?;
    let ((), changes) = end_session(view, &run.session, held)?;
    draft.absorb(changes);
    let mut pool = draft.pool()?;
    pool.slots.retain(|slot| slot.run != *id);
    draft.put(&(), pool);
    let then = match draft.get::<Job>(&run.job)?.cloned() {
        Some(job) if job.state == (State::Running { run: id.clone() }) => draft.go_on(&run, job, &end, at)?,
        _ => Then::Over,
    };
    let what = What::RunEnded { run: id.clone(), begun: run.begun, end: end.clone(), then: then.clone() };
    draft.note(at, id.as_str(), Event::of_job(&run.agent, &run.job, what));
    draft.put(id, Run { ended: Some(Ended { end: end.clone(), at }), ..run });
    Ok((Finished::Now { end, then }, draft.into_changes()))
}

/// Ends a run as lost, if its session has ended: its supervisor is dead, or was unheard of for too long.
/// Answers `None` if the session lives.
///
/// # Errors
/// What it has not seen yet.
pub fn lose(view: &View, id: &RunId, held: &[Key], at: Wall) -> Decided<(Option<Finished>, Changes)> {
    let draft = Draft::new(view);
    if let Some(run) = draft.get::<Run>(id)?
        && run.ended.is_none()
        && draft.is_alive(&run.session)?
    {
        return Ok((None, Changes::default()));
    }
    let (finished, changes) = finish(view, id, End::Lost, held, at)?;
    Ok((Some(finished), changes))
}

impl Draft<'_> {
    /// What becomes of the job.
    fn go_on(&mut self, run: &Run, job: Job, end: &End, at: Wall) -> Decided<Then> {
        if end.is_transient() {
            return self.put_back(&run.job, job);
        }
        let rules = &job.spec.rules;
        let job = Job { returned: run.returned.clone(), not_started: 0, ..job.clone() };
        if *end == End::Lost && run.begun.is_none() {
            let place = self.queue_first(&run.job, &job.spec)?;
            self.put(&run.job, Job { state: State::Queued { place }, ..job });
            return Ok(Then::Requeued);
        }
        let Some(class) = end.class() else {
            let asked = *end == End::Completed && run.wants_rerun && job.spec.trigger.may_rerun();
            if asked && job.reruns < rules.max_reruns {
                let place = self.queue_first(&run.job, &job.spec)?;
                let reruns = job.reruns + 1;
                self.put(&run.job, Job { state: State::Queued { place }, reruns, ..job });
                return Ok(Then::Rerun);
            }
            self.put(&run.job, over(job, end, at));
            return Ok(Then::Over);
        };
        let failures = job.failures + 1;
        if let Some(wait) = rules.retry_after(class, failures) {
            let due = self.now() + wait;
            self.set_row(RowId::Delay(due, run.job.clone()), Some(Row::Delay(run.agent.clone())));
            self.put(&run.job, Job { state: State::Delayed { due }, failures, ..job });
            return Ok(Then::Retry { after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) });
        }
        let fate = Fate::Ended { end: end.clone() };
        let undone = Undone { agent: run.agent.clone(), fate };
        self.set_row(RowId::Undone(at, run.job.clone()), Some(Row::Undone(undone)));
        self.put(&run.job, over(Job { failures, ..job }, end, at));
        Ok(Then::Over)
    }
}

impl Draft<'_> {
    /// Makes a job whose run was not started the first in its queue again. It is not claimed before its back-off is over.
    fn put_back(&mut self, id: &JobId, job: Job) -> Decided<Then> {
        let not_started = job.not_started.saturating_add(1);
        let wait = start_backoff(not_started);
        let (place, not_before) = (self.queue_first(id, &job.spec)?, Some(self.now() + wait));
        self.put(id, Job { state: State::Queued { place }, not_started, not_before, ..job });
        Ok(Then::Retry { after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) })
    }

    /// Puts the job of a lost run back: a store went away while the run was beginning, its session lapsed, and only now its
    /// supervisor can say that the agent never ran. The run stays lost. Nothing happens if something else was decided about
    /// the job meanwhile, or a caller was answered.
    fn replay_lost(&mut self, id: &RunId, run: &Run, at: Wall) -> Decided<()> {
        self.need_rows([RowId::Line(run.agent.clone()), RowId::Job(run.job.clone())])?;
        let Some(job) = self.get::<Job>(&run.job)?.cloned() else { return Ok(()) };
        let State::Over { fate: Fate::Ended { end: End::Lost }, at: since } = job.state else {
            return Ok(());
        };
        if job.last_run.as_ref() != Some(id) || job.spec.trigger.depth() > 0 {
            return Ok(());
        }
        self.set_row(RowId::Undone(since, run.job.clone()), None);
        self.put_back(&run.job, Job { failures: job.failures.saturating_sub(1), ..job })?;
        self.note(at, id.as_str(), Event::of_job(&run.agent, &run.job, What::Replayed));
        Ok(())
    }
}

fn over(job: Job, end: &End, at: Wall) -> Job {
    Job { state: State::Over { fate: Fate::Ended { end: end.clone() }, at }, ..job }
}

/// Queues a job again whose time to be retried has come. Whether there was anything to do.
///
/// # Errors
/// What it has not seen yet.
pub fn retry(view: &View, id: &JobId) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let Some(job) = draft.get::<Job>(id)?.cloned() else { return Ok((false, Changes::default())) };
    let State::Delayed { due } = job.state else { return Ok((false, Changes::default())) };
    if view.now < due {
        return Ok((false, Changes::default()));
    }
    let place = draft.queue_last(id, &job.spec)?;
    draft.set_row(RowId::Delay(due, id.clone()), None);
    draft.put(id, Job { state: State::Queued { place }, ..job });
    Ok((true, draft.into_changes()))
}
