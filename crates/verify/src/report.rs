//! What a run found, for programs and for people.

use bell_api::exit;
use bell_store::Info;
use bell_store::info::{Durability, FailOver, Scope};
use serde::Serialize;

use crate::site::Cleaning;
use crate::verdict::{Finding, Verdict};

/// What a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The worst of all verdicts.
    pub verdict: Verdict,
    /// What the store says of itself.
    pub info: Info,
    /// What each check found.
    pub findings: Vec<Finding>,
    /// What the store can be trusted with, in plain sentences.
    pub summary: Vec<String>,
    /// What came of cleaning up.
    pub cleaning: Cleaning,
    /// It was told to stop before it was over.
    pub interrupted: bool,
    /// How long all of it took, in milliseconds.
    pub took_ms: u64,
}

/// What counts as success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strictness {
    /// A store that keeps the contract.
    Usual,
    /// Only one that has no warnings either.
    NoWarnings,
}

impl Report {
    /// A report of these findings.
    pub(crate) fn new(info: Info, findings: Vec<Finding>) -> Self {
        let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::NotRun);
        let summary = summary(&info, &findings);
        let cleaning = Cleaning::default();
        Self { verdict, info, findings, summary, cleaning, interrupted: false, took_ms: 0 }
    }

    /// The exit code of a command.
    pub fn exit(&self, strictness: Strictness) -> u8 {
        match self.verdict {
            Verdict::Failed | Verdict::Unsafe => exit::CONFLICT,
            Verdict::Unavailable => exit::UNAVAILABLE,
            Verdict::NotRun => exit::TIMED_OUT,
            Verdict::Warning if strictness == Strictness::NoWarnings => exit::CONFLICT,
            _ if self.cleaning.left.is_some() => exit::UNAVAILABLE,
            Verdict::Passed | Verdict::NotApplicable | Verdict::Warning => exit::OK,
        }
    }

    /// One line for each check, then the summary.
    pub fn lines(&self) -> String {
        let mut lines: Vec<String> = self.findings.iter().map(line).collect();
        lines.push(String::new());
        lines.extend(self.summary.iter().cloned());
        if self.cleaning.leftovers > 0 {
            lines.push(format!("Removed {} records that a killed run had left.", self.cleaning.leftovers));
        }
        if let Some(left) = &self.cleaning.left {
            lines.push(format!("Not cleaned up: {left}"));
        }
        lines.join("\n")
    }
}

fn line(finding: &Finding) -> String {
    let rules = finding.rules.join(" ");
    format!("{:9} {:11} {:16} {}", finding.verdict, rules, finding.check, finding.evidence)
}

/// What a store with these findings can be trusted with.
fn summary(info: &Info, findings: &[Finding]) -> Vec<String> {
    let of = |verdict| {
        let found = findings.iter().filter(move |finding| finding.verdict == verdict);
        found.map(|finding| finding.check.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut lines = Vec::new();
    let (failed, silent, skipped) = (of(Verdict::Failed), of(Verdict::Unavailable), of(Verdict::NotRun));
    if !failed.is_empty() {
        lines.push(format!("Do not trust this store with locks: it breaks the contract ({failed})."));
    } else if !silent.is_empty() {
        lines.push(format!("Nothing is proved: the store stopped answering ({silent})."));
    } else if !skipped.is_empty() {
        lines.push(format!(
            "Not everything was tried ({skipped}): allow more time with --seconds or --thorough."
        ));
    } else {
        lines.push(trusted(info));
    }
    let unsafely = info.durability < Durability::Power || info.fail_over == FailOver::Loses;
    if failed.is_empty() && unsafely {
        lines.push(caution(info));
    }
    lines
}

fn trusted(info: &Info) -> String {
    let among = match info.scope {
        Scope::Process => "threads of one process",
        Scope::Host => "processes of one machine",
        Scope::Distributed => "machines",
    };
    format!(
        "This store can be trusted with locks among {among}: everything that was tried kept the contract."
    )
}

/// What the store does not survive, and what that means for locks.
fn caution(info: &Info) -> String {
    let loses = match (info.fail_over, info.durability) {
        (FailOver::Loses, _) => "a fail-over may forget who held what",
        (_, Durability::Volatile) => "a restart of the store forgets every lock",
        _ => "a power cut may forget who held what",
    };
    format!("But {loses}: use it for work that may be done twice, or guard every write by its fence.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::Store;
    use bell_store::memory::Memory;

    fn report(verdicts: &[Verdict]) -> Report {
        let finding = |verdict: &Verdict| Finding {
            check: "exclusion".to_owned(),
            proves: String::new(),
            rules: vec!["L2".to_owned()],
            verdict: *verdict,
            evidence: "seen".to_owned(),
            took_ms: 0,
        };
        Report::new(Memory::new().info().clone(), verdicts.iter().map(finding).collect())
    }

    #[test]
    fn the_worst_verdict_decides_the_exit_code() {
        let code = |verdicts: &[Verdict]| report(verdicts).exit(Strictness::Usual);
        assert_eq!(code(&[Verdict::Passed, Verdict::NotApplicable, Verdict::Warning]), exit::OK);
        assert_eq!(code(&[Verdict::Passed, Verdict::Unsafe, Verdict::NotRun]), exit::CONFLICT);
        assert_eq!(code(&[Verdict::Passed, Verdict::NotRun]), exit::TIMED_OUT);
        assert_eq!(code(&[Verdict::Unavailable, Verdict::NotRun]), exit::UNAVAILABLE);
        assert_eq!(code(&[Verdict::Unavailable, Verdict::Failed, Verdict::Passed]), exit::CONFLICT);
        assert_eq!(code(&[]), exit::TIMED_OUT);
    }

    #[test]
    fn strictly_a_warning_is_no_success() {
        assert_eq!(report(&[Verdict::Warning]).exit(Strictness::NoWarnings), exit::CONFLICT);
        assert_eq!(report(&[Verdict::Passed]).exit(Strictness::NoWarnings), exit::OK);
    }

    #[test]
    fn what_could_not_be_cleaned_up_is_told_and_is_no_success() {
        let mut report = report(&[Verdict::Passed]);
        report.cleaning.left = Some("records that start with @verify-x/".to_owned());
        assert_eq!(report.exit(Strictness::Usual), exit::UNAVAILABLE);
        assert!(report.lines().contains("Not cleaned up: records that start with @verify-x/"));
    }

    #[test]
    fn a_store_that_failed_is_not_to_be_trusted() {
        let lines = report(&[Verdict::Passed, Verdict::Failed]).lines();
        assert!(lines.contains("Do not trust this store with locks"), "{lines}");
        assert!(!lines.contains("can be trusted"), "{lines}");
    }
}
