//! Every nominal time of a schedule has exactly one row that never changes, leads to at most one job, and none is left
//! out between the first and the last.

use std::collections::{BTreeMap, BTreeSet};

use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::job::{JobId, Trigger};

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

/// Every schedule of the simulated fleet fires each minute.
const PERIOD_MS: u64 = 60_000;
const PERIOD_STEP: usize = 60_000;

#[derive(Default)]
pub(super) struct OneRowPerTick {
    jobs: BTreeMap<(AgentName, Wall), JobId>,
    /// When ticks were due, and from when on they count.
    rows: BTreeMap<AgentName, BTreeSet<u64>>,
}

impl Invariant for OneRowPerTick {
    fn name(&self) -> &'static str {
        "one_row_per_tick"
    }

    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen {
        let Event::Committed(changes) = event else { return Ok(()) };
        changes.iter().try_for_each(|change| match change {
            Change::Fire((agent, nominal), None, Some(fire)) => {
                let decided = fire.decided_until(*nominal).0;
                self.rows.entry(agent.clone()).or_default().insert(decided);
                Ok(())
            }
            // What says from when on a schedule counts is forgotten once there are ticks.
            Change::Fire((agent, nominal), Some(fire), None) if fire.decided_until(*nominal) != *nominal => {
                let latest = state.fires.keys().rev().find(|(of, _)| of == agent);
                holds(latest.is_some(), || format!("nothing says from when on {agent} counts"))
            }
            Change::Fire((agent, nominal), Some(_), _) => {
                Err(format!("the tick {} of {agent} was decided twice, or forgotten", nominal.0))
            }
            Change::Job(id, None, Some(job)) => {
                let Trigger::Cron { nominal } = job.spec.trigger else { return Ok(()) };
                let first = self.jobs.entry((job.spec.agent.clone(), nominal)).or_insert_with(|| id.clone());
                holds(first == id, || format!("the tick {} led to {first} and to {id}", nominal.0))
            }
            _ => Ok(()),
        })
    }

    fn finally(&mut self, _state: &State) -> Seen {
        holds(!self.jobs.is_empty(), || "no schedule has led to a job".to_owned())?;
        for (agent, rows) in &self.rows {
            let (first, last) = (rows.first().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
            let mut due = (first.next_multiple_of(PERIOD_MS)..last).step_by(PERIOD_STEP);
            due.find(|nominal| !rows.contains(nominal)).map_or(Ok(()), |left_out| {
                Err(format!(
                    "the tick {left_out} of {agent} has no row; there is one at {first} and at {last}"
                ))
            })?;
        }
        Ok(())
    }
}
