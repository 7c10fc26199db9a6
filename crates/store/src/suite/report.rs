//! How the cases went, for programs and as a table for people.

use std::fmt;

use super::ground::{Done, Stop};

/// How one case went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The store does what the contract says.
    Passed,
    /// The store does not claim what this case is about.
    Skipped(String),
    /// The store does something else.
    Failed(String),
}

impl From<Done> for Verdict {
    fn from(done: Done) -> Self {
        done.map_or_else(Self::from, |()| Self::Passed)
    }
}

impl From<Stop> for Verdict {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Failed(why) => Self::Failed(why),
            Stop::Skipped(why) => Self::Skipped(why.to_owned()),
        }
    }
}

/// How all cases went, in the order they were tried. Its `Display` is a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    cases: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// Every case with its verdict.
    pub fn cases(&self) -> &[(&'static str, Verdict)] {
        &self.cases
    }

    /// The names of the cases that failed.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = |(name, verdict): &(&'static str, Verdict)| {
            matches!(verdict, Verdict::Failed(_)).then_some(*name)
        };
        self.cases.iter().filter_map(failed).collect()
    }

    pub(super) fn add(&mut self, name: &'static str, verdict: Verdict) {
        self.cases.push((name, verdict));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.cases.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, verdict) in &self.cases {
            match verdict {
                Verdict::Passed => writeln!(f, "{name:width$}  passed")?,
                Verdict::Skipped(why) => writeln!(f, "{name:width$}  skipped: {why}")?,
                Verdict::Failed(why) => writeln!(f, "{name:width$}  FAILED: {why}")?,
            }
        }
        write!(f, "{} cases, {} failed", self.cases.len(), self.failed().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_case_and_a_sum() {
        let mut report = Report::default();
        report.add("a::short", Verdict::Passed);
        report.add("a::longer", Verdict::Failed("lost one".to_owned()));
        report.add("b::c", Verdict::Skipped("not claimed".to_owned()));
        let lines = [
            "a::short   passed",
            "a::longer  FAILED: lost one",
            "b::c       skipped: not claimed",
            "3 cases, 1 failed",
        ];
        assert_eq!(report.to_string(), lines.join("\n"));
        assert_eq!(report.failed(), ["a::longer"]);
    }
}
