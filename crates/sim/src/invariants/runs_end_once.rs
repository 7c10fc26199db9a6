//! Every run has exactly one end, told in exactly one row of history, and in the end every run has one.

use std::collections::BTreeMap;

use bell_core::work::row::What;
use bell_core::work::run::RunId;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct RunsEndOnce {
    told: BTreeMap<RunId, u32>,
}

impl Invariant for RunsEndOnce {
    fn name(&self) -> &'static str {
        "runs_end_once"
    }

    fn look(&mut self, event: &Event<'_>, _state: &State) -> Seen {
        let Event::Committed(changes) = event else { return Ok(()) };
        changes.iter().try_for_each(|change| match change {
            Change::Run(id, Some(_), None) => Err(format!("run {id} is gone")),
            Change::Run(id, Some(before), Some(after)) if before.ended.is_some() => {
                holds(before.ended == after.ended, || {
                    format!("run {id} ended as {:?}, and then as {:?}", before.ended, after.ended)
                })
            }
            Change::History(Some(row)) => {
                let What::RunEnded { run, .. } = &row.what else { return Ok(()) };
                let times = self.told.entry(run.clone()).or_default();
                *times += 1;
                holds(*times == 1, || format!("the end of run {run} is told {times} times"))
            }
            _ => Ok(()),
        })
    }

    fn finally(&mut self, state: &State) -> Seen {
        state.runs.iter().try_for_each(|(id, run)| {
            holds(run.ended.is_some(), || format!("run {id} has not ended"))?;
            holds(self.told.contains_key(id), || format!("nothing tells of the end of run {id}"))
        })
    }
}
