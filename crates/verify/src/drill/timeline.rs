//! What happened in a drill, when, and whether it should have.

use std::time::Duration;

use bell_core::lock::Fence;
use bell_store::clock::boottime;
use serde::Serialize;

/// Who did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Who {
    /// The first holder, which is paused or killed.
    A,
    /// The one that takes over.
    B,
    /// The drill itself.
    #[serde(rename = "drill")]
    Drill,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// In which round, from 1.
    pub round: u32,
    /// Since the drill began.
    pub at_ms: u64,
    /// Who did it.
    pub who: Who,
    /// The process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The fence that it got or sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// What was done, and what came of it.
    pub what: String,
    /// Whether that is as it must be.
    pub right: bool,
}

/// What a drill comes to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Whether everything was as it must be.
    pub passed: bool,
    /// How many rounds were played.
    pub rounds: u32,
    /// Writes with a fence that a later holder's write had made stale.
    pub stale_writes: usize,
    /// Those of them that a guard let through.
    pub got_through: usize,
    /// Everything that happened, in order.
    pub steps: Vec<Step>,
}

/// A report in the making.
pub(super) struct Timeline<T> {
    began: Duration,
    round: u32,
    stale_writes: usize,
    got_through: usize,
    steps: Vec<Step>,
    tell: T,
}

impl<T: FnMut(&Step)> Timeline<T> {
    pub(super) fn new(tell: T) -> Self {
        Self { began: boottime(), round: 0, stale_writes: 0, got_through: 0, steps: Vec::new(), tell }
    }

    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Something happened as it must.
    pub(super) fn right(&mut self, by: By, what: impl Into<String>) {
        self.add(by, what.into(), true);
    }

    /// Something happened that must not.
    pub(super) fn wrong(&mut self, by: By, what: impl Into<String>) {
        self.add(by, what.into(), false);
    }

    /// A write was sent with a stale fence.
    pub(super) fn stale_write(&mut self, by: By, what: impl Into<String>, let_through: LetThrough) {
        self.stale_writes += 1;
        self.got_through += usize::from(let_through == LetThrough::Yes);
        self.add(by, what.into(), let_through == LetThrough::No);
    }

    fn add(&mut self, by: By, what: String, right: bool) {
        let passed = boottime().saturating_sub(self.began);
        let at_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let step = Step { round: self.round, at_ms, who: by.who, pid: by.pid, fence: by.fence, what, right };
        (self.tell)(&step);
        self.steps.push(step);
    }

    pub(super) fn report(self) -> Report {
        Report {
            passed: self.steps.iter().all(|step| step.right),
            rounds: self.round,
            stale_writes: self.stale_writes,
            got_through: self.got_through,
            steps: self.steps,
        }
    }
}

/// Whether a guard let a stale write through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LetThrough {
    Yes,
    No,
}

/// Who did something, with which fence.
#[derive(Clone, Copy)]
pub(super) struct By {
    pub(super) who: Who,
    pub(super) pid: Option<u32>,
    pub(super) fence: Option<Fence>,
}

impl By {
    /// The drill itself.
    pub(super) const DRILL: Self = Self { who: Who::Drill, pid: None, fence: None };

    pub(super) fn with(self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stale_write_that_got_through_fails_the_drill() {
        let mut told = 0;
        let mut timeline = Timeline::new(|_: &Step| told += 1);
        timeline.next_round();
        timeline.stale_write(By::DRILL.with(Fence(1)), "refused", LetThrough::No);
        timeline.stale_write(By::DRILL.with(Fence(1)), "let through", LetThrough::Yes);
        let report = timeline.report();
        assert_eq!((report.stale_writes, report.got_through, report.passed), (2, 1, false));
        assert_eq!(told, 2);
    }

    #[test]
    fn anything_else_that_is_wrong_fails_it_too() {
        let mut timeline = Timeline::new(|_: &Step| {});
        timeline.right(By::DRILL, "so");
        timeline.wrong(By::DRILL, "not so");
        assert!(!timeline.report().passed);
    }
}
