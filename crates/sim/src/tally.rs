//! How often what happened: a story in which nothing goes wrong proves little, so it is counted.

use std::collections::BTreeMap;

use bell_core::work::job::Job;
use bell_core::work::row::{Then, What};

use crate::journal::Event;
use crate::state::Change;

/// How often each thing happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally(pub BTreeMap<&'static str, u64>);

impl Tally {
    /// Counts it once more.
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    pub(crate) fn look(&mut self, event: &Event<'_>) {
        match event {
            Event::Committed(changes) => changes.iter().for_each(|change| self.change(change)),
            Event::Accepted(_) => self.count("trigger accepted"),
            Event::Acted { .. } => self.count("act of a holder"),
            Event::Wrote { .. } => self.count("guarded write"),
            Event::Worked(_) => self.count("work of a run"),
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Lock(_, before, Some(after)) => {
                let queued = |lock: &bell_core::lock::Lock| lock.queue.len();
                if queued(after) > before.as_ref().map_or(0, queued) {
                    self.count("wait for a lock");
                }
            }
            Change::Job(_, before, Some(after)) => {
                let waits = |job: &Job| job.lock_wait.is_some();
                if waits(after) && !before.as_ref().is_some_and(|before| waits(before)) {
                    self.count("job waits for its locks");
                }
            }
            Change::History(Some(row)) => match &row.what {
                What::RunEnded { end, then, .. } => {
                    self.count(end.word());
                    self.count(match then {
                        Then::Over => "job over",
                        Then::Requeued => "claim lapsed",
                        Then::Rerun => "rerun",
                        Then::Retry { .. } => "retry",
                    });
                }
                What::Skipped { .. } => self.count("tick skipped"),
                What::Shelved { .. } => self.count("job shelved"),
                What::Replayed => self.count("job replayed"),
                What::Paused { reason: Some(_) } => self.count("pause"),
                What::Paused { reason: None } => self.count("resume"),
                What::Scaled { .. } => self.count("scale"),
            },
            _ => {}
        }
    }
}
