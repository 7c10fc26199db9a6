//! A trigger that was said to be taken on is never lost: its job is always somewhere, and in the end it is over.
//! The same delivery leads to one job.

use std::collections::{BTreeMap, BTreeSet};

use bell_core::work::job::{Job, JobId, State as Is};

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct AcceptedIsNeverLost {
    told: BTreeSet<JobId>,
    once: BTreeMap<String, JobId>,
}

impl Invariant for AcceptedIsNeverLost {
    fn name(&self) -> &'static str {
        "accepted_is_never_lost"
    }

    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen {
        match event {
            Event::Accepted(job) => {
                self.told.insert(job.clone());
                holds(state.jobs.contains_key(job), || format!("job {job} was taken on and is not there"))
            }
            Event::Committed(changes) => changes.iter().try_for_each(|change| match change {
                Change::Job(id, Some(_), None) => Err(format!("job {id} is gone")),
                Change::Job(id, _, Some(job)) => {
                    if let Some(once) = &job.once {
                        let first = self.once.entry(once.clone()).or_insert_with(|| id.clone());
                        holds(first == id, || format!("{once} led to {first} and to {id}"))?;
                    }
                    holds(is_somewhere(id, job, state), || format!("job {id} is nowhere: {:?}", job.state))
                }
                _ => Ok(()),
            }),
            _ => Ok(()),
        }
    }

    fn finally(&mut self, state: &State) -> Seen {
        self.told.iter().try_for_each(|id| {
            let job = state.jobs.get(id);
            let over = job.is_some_and(|job| matches!(job.state, Is::Over { .. }));
            holds(over, || format!("job {id} was taken on and never done: {:?}", job.map(|job| &job.state)))
        })
    }
}

/// Whether what leads to the job is there: a place, a time, or a run.
fn is_somewhere(id: &JobId, job: &Job, state: &State) -> bool {
    match &job.state {
        Is::Queued { place } => state.tickets.get(&(job.spec.agent.clone(), *place)) == Some(id),
        Is::Delayed { .. } => state.delayed.contains(id),
        Is::Running { run } => {
            let live = state.runs.get(run).is_some_and(|run| run.ended.is_none());
            live && state.pool.slots.iter().any(|slot| slot.run == *run)
        }
        Is::Over { .. } => true,
    }
}
