//! At most one run of a job is alive, and only that one does any work.

use std::collections::{BTreeMap, BTreeSet};

use bell_core::work::job::{JobId, State as Is};
use bell_core::work::run::RunId;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct OneLiveClaim {
    live: BTreeMap<JobId, BTreeSet<RunId>>,
}

impl Invariant for OneLiveClaim {
    fn name(&self) -> &'static str {
        "one_live_claim"
    }

    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen {
        match event {
            Event::Committed(changes) => {
                for change in *changes {
                    let Change::Run(id, _, Some(run)) = change else { continue };
                    let live = self.live.entry(run.job.clone()).or_default();
                    if run.ended.is_some() {
                        live.remove(id)
                    } else {
                        live.insert(id.clone())
                    };
                }
                let crowd = self.live.iter().find(|(_, runs)| runs.len() > 1);
                crowd.map_or(Ok(()), |(job, runs)| Err(format!("job {job} has the live runs {runs:?}")))
            }
            Event::Worked(run) => {
                let job = state.runs.get(run).and_then(|run| state.jobs.get(&run.job));
                let is = job.map(|job| &job.state);
                holds(is == Some(&Is::Running { run: run.clone() }), || {
                    format!("run {run} works, but its job is {is:?}")
                })
            }
            _ => Ok(()),
        }
    }
}
