//! How the cases went, for programs and as a table for people.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::cases::Case;

/// One rule of the lock contract, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rule(pub u8);

/// What the rules say, in a few words each; the first is L1.
const SAYINGS: [&str; 24] = [
    "two spellings of a key are one lock",
    "one exclusive lease, or shared ones only",
    "fences rise for ever",
    "taking a held key again gives the same lease",
    "without waiting: granted, or busy and by whom",
    "first come, first served",
    "several keys, all or nothing",
    "a wait that would never end is refused",
    "a lease ends after its ttl, not before",
    "the store's clock counts, no other",
    "a holder stops before the store does",
    "renewed from aside; lost is final",
    "a loss is told",
    "only the holder releases and renews",
    "late acts never touch a successor",
    "a session's end frees what it held",
    "an operator can break a lock",
    "reading disturbs nobody",
    "a guard accepts no older fence",
    "a paused holder never writes again",
    "unreachable means not granted",
    "promises are told and kept",
    "no answer is no failure",
    "each refusal has its own name",
];

impl Rule {
    /// All rules.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..).take(SAYINGS.len()).map(Self)
    }

    /// What it says, in a few words.
    pub fn saying(self) -> &'static str {
        SAYINGS.get(usize::from(self.0).wrapping_sub(1)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("L{}", self.0))
    }
}

/// How one case went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The backend does what the contract says; what was seen.
    Passed(String),
    /// The backend does something else; what.
    Failed(String),
    /// The backend does not claim what this case is about; what is missing.
    NotApplicable(String),
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "pass",
            Self::Failed(_) => "FAIL",
            Self::NotApplicable(_) => "n/a",
        }
    }

    fn evidence(&self) -> &str {
        let (Self::Passed(text) | Self::Failed(text) | Self::NotApplicable(text)) = self;
        text
    }
}

/// One case and how it went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The rule it is about.
    pub rule: Rule,
    /// What must be so, as a sentence.
    pub case: String,
    /// How it went, with what was seen.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// How all cases went. Its `Display` is a table of the rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    rows: BTreeMap<(Rule, usize), Row>,
}

impl Report {
    /// Every case, by rule.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The cases that failed.
    pub fn failed(&self) -> Vec<&Row> {
        self.rows().filter(|row| matches!(row.verdict, Verdict::Failed(_))).collect()
    }

    /// Whether a rule stands: it fails with any of its cases, passes with one, and is not applicable if
    /// none could be tried. `None`: there was no case.
    pub fn of(&self, rule: Rule) -> Option<Verdict> {
        let mut rows: Vec<&Row> = self.rows().filter(|row| row.rule == rule).collect();
        rows.sort_by_key(|row| match row.verdict {
            Verdict::Failed(_) => 0,
            Verdict::Passed(_) => 1,
            Verdict::NotApplicable(_) => 2,
        });
        rows.first().map(|row| row.verdict.clone())
    }

    /// Ends a test unless every case passed or was not applicable.
    ///
    /// # Panics
    /// If a case failed, or none was tried.
    pub fn assert_passed(&self) {
        assert!(!self.rows.is_empty(), "no case was tried");
        assert!(self.failed().is_empty(), "the backend breaks the lock contract\n{self}");
    }

    pub(super) fn add(&mut self, place: usize, case: &Case, verdict: Verdict, took: Duration) {
        let row = Row { rule: case.rule, case: case.sentence(), verdict, took };
        self.rows.insert((case.rule, place), row);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in Rule::all() {
            let Some(verdict) = self.of(rule) else { continue };
            writeln!(f, "{rule:<4} {:<5} {}", verdict.word(), rule.saying())?;
            for row in self.rows().filter(|row| row.rule == rule) {
                let (word, ms) = (row.verdict.word(), row.took.as_millis());
                writeln!(f, "     {word:<5} {ms:>6} ms  {}: {}", row.case, row.verdict.evidence())?;
            }
        }
        let count = |word| self.rows().filter(|row| row.verdict.word() == word).count();
        let (passed, failed, rest) = (count("pass"), count("FAIL"), count("n/a"));
        write!(f, "{passed} cases passed, {failed} failed, {rest} not applicable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rule: u8, case: &str, verdict: Verdict) -> ((Rule, usize), Row) {
        let row = Row { rule: Rule(rule), case: case.to_owned(), verdict, took: Duration::from_millis(3) };
        ((Rule(rule), case.len()), row)
    }

    fn report() -> Report {
        let rows = [
            row(2, "a", Verdict::Passed("one winner".to_owned())),
            row(2, "bb", Verdict::Failed("two winners".to_owned())),
            row(4, "a", Verdict::Passed("fence 7".to_owned())),
            row(4, "bb", Verdict::NotApplicable("not claimed".to_owned())),
        ];
        Report { rows: rows.into() }
    }

    #[test]
    fn a_rule_fails_with_one_case_and_passes_with_one_if_none_failed() {
        assert_eq!(report().of(Rule(2)), Some(Verdict::Failed("two winners".to_owned())));
        assert_eq!(report().of(Rule(4)), Some(Verdict::Passed("fence 7".to_owned())));
        assert_eq!(report().of(Rule(3)), None);
    }

    #[test]
    fn the_table_has_a_line_for_each_rule_and_each_case_and_a_sum() {
        let lines = [
            "L2   FAIL  one exclusive lease, or shared ones only",
            "     pass       3 ms  a: one winner",
            "     FAIL       3 ms  bb: two winners",
            "L4   pass  taking a held key again gives the same lease",
            "     pass       3 ms  a: fence 7",
            "     n/a        3 ms  bb: not claimed",
            "2 cases passed, 1 failed, 1 not applicable",
        ];
        assert_eq!(report().to_string(), lines.join("\n"));
    }

    #[test]
    #[should_panic(expected = "two winners")]
    fn a_report_with_a_failure_ends_a_test() {
        report().assert_passed();
    }

    #[test]
    #[should_panic(expected = "no case was tried")]
    fn an_empty_report_is_no_pass() {
        Report::default().assert_passed();
    }
}
