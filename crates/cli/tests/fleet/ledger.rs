//! What was accepted beside what ran and what history tells. Pure, so that it can be shown to find what it looks for.

use std::collections::{BTreeMap, BTreeSet};

/// A campaign, as three parties saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The jobs that were answered as accepted: by whoever asked.
    pub(crate) accepted: Vec<String>,
    /// What was begun, job and run: by the agents themselves, each on a line of its own.
    pub(crate) begun: Vec<(String, String)>,
    /// How runs ended, job, run and end: by history.
    pub(crate) told: Vec<(String, String, String)>,
}

impl Ledger {
    /// Everything that is wrong: jobs that were lost, and runs that nobody tells of.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.lost();
        faults.extend(self.silent());
        faults.extend(self.doubles());
        faults
    }

    fn lost(&self) -> Vec<String> {
        let begun: BTreeSet<&String> = self.begun.iter().map(|(job, _)| job).collect();
        let lost = self.accepted.iter().filter(|job| !begun.contains(job));
        lost.map(|job| format!("{job} was accepted and never run")).collect()
    }

    /// Each process that was started is a run of its own, and history tells of it.
    fn silent(&self) -> Vec<String> {
        let told: BTreeSet<&String> = self.told.iter().map(|(_, run, _)| run).collect();
        let mut times: BTreeMap<&String, u32> = BTreeMap::new();
        self.begun.iter().for_each(|(_, run)| *times.entry(run).or_default() += 1);
        let fault = |(run, times): (&String, u32)| match times {
            1 if told.contains(run) => None,
            1 => Some(format!("{run} ran, and history does not tell of it")),
            times => Some(format!("{run} was started {times} times")),
        };
        times.into_iter().filter_map(fault).collect()
    }

    /// A job that was done is not done again.
    fn doubles(&self) -> Vec<String> {
        let mut done: BTreeMap<&String, u32> = BTreeMap::new();
        let completed = self.told.iter().filter(|(_, _, end)| end == "completed");
        completed.for_each(|(job, _, _)| *done.entry(job).or_default() += 1);
        let doubles = done.into_iter().filter(|(_, times)| *times > 1);
        doubles.map(|(job, times)| format!("{job} was completed {times} times")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three jobs, of which the second was lost once and tried again, as history tells.
    fn good() -> Ledger {
        let begun = [("a", "a-1"), ("b", "b-1"), ("b", "b-2"), ("c", "c-1")];
        let told = [
            ("a", "a-1", "completed"),
            ("b", "b-1", "lost"),
            ("b", "b-2", "completed"),
            ("c", "c-1", "failed"),
        ];
        Ledger {
            accepted: ["a", "b", "c"].map(str::to_owned).to_vec(),
            begun: begun.map(|(job, run)| (job.to_owned(), run.to_owned())).to_vec(),
            told: told.map(|(job, run, end)| (job.to_owned(), run.to_owned(), end.to_owned())).to_vec(),
        }
    }

    #[test]
    fn a_campaign_in_which_a_lost_run_was_told_and_tried_again_is_right() {
        assert_eq!(good().faults(), Vec::<String>::new());
    }

    #[test]
    fn a_job_that_was_dropped_is_found() {
        let mut ledger = good();
        ledger.begun.remove(0);
        assert_eq!(ledger.faults(), ["a was accepted and never run"]);
    }

    #[test]
    fn a_run_that_nobody_tells_of_is_found() {
        let mut ledger = good();
        ledger.told.remove(1);
        assert_eq!(ledger.faults(), ["b-1 ran, and history does not tell of it"]);
    }

    #[test]
    fn a_run_that_was_started_twice_is_found() {
        let mut ledger = good();
        ledger.begun.push(ledger.begun[0].clone());
        assert_eq!(ledger.faults(), ["a-1 was started 2 times"]);
    }

    #[test]
    fn a_job_that_was_done_twice_is_found_even_if_both_are_told() {
        let mut ledger = good();
        ledger.told[1].2 = "completed".to_owned();
        assert_eq!(ledger.faults(), ["b was completed 2 times"]);
    }
}
