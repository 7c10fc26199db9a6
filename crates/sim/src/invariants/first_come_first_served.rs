//! An agent's jobs are claimed in the order in which they were queued, and the oldest is the one that is dropped.
//! What had begun to be served (a claim that lapsed, a rerun) comes first again; what does not get its locks leaves early.

use std::collections::{BTreeMap, VecDeque};

use bell_core::work::agent::AgentName;
use bell_core::work::job::{Fate, Job, JobId, State as Is};
use bell_core::work::line::Place;
use bell_core::work::run::End;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct FirstComeFirstServed {
    queues: BTreeMap<AgentName, VecDeque<JobId>>,
}

impl Invariant for FirstComeFirstServed {
    fn name(&self) -> &'static str {
        "first_come_first_served"
    }

    fn look(&mut self, event: &Event<'_>, _state: &State) -> Seen {
        let Event::Committed(changes) = event else { return Ok(()) };
        let moved = changes.iter().filter_map(|change| match change {
            Change::Job(id, before, Some(after)) => Some((id, before.as_deref(), after.as_ref())),
            _ => None,
        });
        // Those who leave make room for those who come, and who move together do so in the order of their places.
        let (mut come, mut left): (Vec<_>, Vec<_>) = moved.partition(|(_, _, after)| place(after).is_some());
        come.sort_by_key(|(_, _, after)| place(after));
        left.sort_by_key(|(_, before, _)| before.map(place));
        for (id, before, after) in left {
            if before.is_some_and(|before| place(before).is_some()) {
                self.leave(id, after)?;
            }
        }
        for (id, before, after) in come {
            self.come(id, before, after);
        }
        Ok(())
    }
}

impl FirstComeFirstServed {
    fn come(&mut self, id: &JobId, before: Option<&Job>, after: &Job) {
        let queue = self.queues.entry(after.spec.agent.clone()).or_default();
        match before.map(|before| &before.state) {
            Some(Is::Queued { .. }) => {}
            Some(Is::Running { .. }) => queue.push_front(id.clone()),
            Some(Is::Delayed { .. } | Is::Over { .. }) | None => queue.push_back(id.clone()),
        }
    }

    fn leave(&mut self, id: &JobId, after: &Job) -> Seen {
        let queue = self.queues.entry(after.spec.agent.clone()).or_default();
        let in_turn = queue.front() == Some(id);
        let is_refused =
            |fate: &Fate| matches!(fate, Fate::Cancelled | Fate::Ended { end: End::Busy { .. } });
        let may_jump = matches!(&after.state, Is::Over { fate, .. } if is_refused(fate));
        let first = queue.front().cloned();
        queue.retain(|job| job != id);
        holds(in_turn || may_jump, || format!("job {id} of {} left before {first:?}", after.spec.agent))
    }
}

fn place(job: &Job) -> Option<Place> {
    if let Is::Queued { place } = job.state { Some(place) } else { None }
}
