//! What came of the cells: for people, for programs, and for the page that is made from it.

use serde::{Deserialize, Serialize};

use crate::history::{Answer, History};
use crate::matrix::{Fault, Store};

/// What came of a cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// On which store.
    pub store: Store,
    /// Under which fault.
    pub fault: Fault,
    /// In a word.
    pub verdict: Verdict,
    /// What the store was that day.
    pub place: String,
    /// The day.
    pub on: String,
    /// In numbers.
    pub counts: Counts,
    /// What was wrong, or why it was not tried.
    pub seen: Vec<String>,
}

/// What came of a cell, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The contract held.
    Held,
    /// The documents call it unsafe, and the store says so itself.
    Unsafe,
    /// The contract did not hold, or the cell could not be run.
    Broken,
    /// There is no such thing there.
    Absent,
    /// It can't be made to happen here.
    NotInjected,
}

/// What happened, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Questions that clients asked.
    pub operations: usize,
    /// Leases that were granted.
    pub grants: usize,
    /// Questions that the store, or what stood in for it, refused: nothing happened.
    pub refused: usize,
    /// Questions without an answer.
    pub unknown: usize,
    /// Writes that the guard refused.
    pub stale: usize,
    /// The longest time in which nobody's lease was granted or renewed, from the fault on.
    pub unserved_ms: u64,
}

impl Counts {
    /// Counts what was asked. Until `stopped_us` clients wanted leases all the time.
    pub fn of(history: &History, stopped_us: u64) -> Self {
        let with = |answer: Answer| history.ops.iter().filter(|op| op.answer == answer).count();
        let mut served: Vec<u64> =
            history.ops.iter().filter(|op| op.hold().is_some()).map(|op| op.answered_us).collect();
        served.retain(|at_us| (history.fault.from_us..stopped_us).contains(at_us));
        served.extend([history.fault.from_us, stopped_us]);
        served.sort_unstable();
        let unserved_us = served.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        Self {
            operations: history.ops.len(),
            grants: history.ops.iter().filter(|op| op.grant().is_some()).count(),
            refused: with(Answer::Refused),
            unknown: with(Answer::Unknown),
            stale: with(Answer::Stale),
            unserved_ms: unserved_us / 1_000,
        }
    }
}

impl Outcome {
    /// A cell that was not run.
    pub fn untried(store: Store, fault: Fault, verdict: Verdict, why: &str) -> Self {
        let seen = if why.is_empty() { Vec::new() } else { vec![why.to_owned()] };
        let (place, on) = (String::new(), String::new());
        Self { store, fault, verdict, place, on, counts: Counts::default(), seen }
    }

    /// What the table shows.
    pub fn words(&self) -> String {
        let Counts { operations, unserved_ms, .. } = self.counts;
        let seconds = format!("{}.{} s", unserved_ms / 1_000, unserved_ms % 1_000 / 100);
        match self.verdict {
            Verdict::Held => format!("held ({operations} operations, unserved {seconds})"),
            Verdict::Unsafe => format!("**unsafe**, and says so: {}", self.seen.join("; ")),
            Verdict::Broken => format!("**broken**: {}", self.seen.join("; ")),
            Verdict::Absent => "—".to_owned(),
            Verdict::NotInjected => format!("not injected: {}", self.seen.join("; ")),
        }
    }
}

/// What came of all cells that were run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// By store, then by fault.
    pub cells: Vec<Outcome>,
}

impl Results {
    /// These with `outcome` in the place of an older one of the same cell.
    pub fn add(&mut self, outcome: Outcome) {
        self.cells.retain(|old| (old.store, old.fault) != (outcome.store, outcome.fault));
        self.cells.push(outcome);
        self.cells.sort_by_key(|cell| (cell.store, cell.fault));
    }

    /// The cells in which the contract did not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Outcome> {
        self.cells.iter().filter(|cell| cell.verdict == Verdict::Broken)
    }

    /// One cell.
    pub fn cell(&self, store: Store, fault: Fault) -> Option<&Outcome> {
        self.cells.iter().find(|cell| (cell.store, cell.fault) == (store, fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::made::{granted, history};
    use crate::history::Window;

    #[test]
    fn the_longest_time_without_service_is_counted_from_the_fault_on() {
        let mut history =
            history([granted("a", 0.0, 1.0, 1), granted("b", 6.0, 7.0, 2), granted("c", 8.0, 8.5, 3)]);
        history.fault = Window { from_us: 2_000_000, to_us: 6_000_000 };
        let counts = Counts::of(&history, 9_000_000);
        assert_eq!((counts.operations, counts.grants, counts.unserved_ms), (3, 3, 5_000));
    }

    #[test]
    fn a_later_outcome_of_a_cell_takes_the_place_of_the_earlier() {
        let mut results = Results::default();
        for verdict in [Verdict::Broken, Verdict::Held] {
            results.add(Outcome::untried(Store::File, Fault::Reset, verdict, ""));
        }
        assert_eq!((results.cells.len(), results.broken().count()), (1, 0));
    }
}
