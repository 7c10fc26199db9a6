//! The lock contract on every store: which case of the conformance suite went how, and where.
//!
//! [`run`] starts the stores and tries the suite on them; [`page`] makes the table that people read. What
//! must be so, and how it is tried, is decided in `bell_locks::conformance`.

pub mod page;
pub mod run;

use bell_locks::conformance::{self, Report, Row};
use serde::{Deserialize, Serialize};

/// How the suite went on several stores.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// A store each, in the order of [`run::STORES`].
    pub stores: Vec<Tried>,
}

/// How the suite went on one store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// The scheme of its URLs.
    pub store: String,
    /// What it was that day: server, version and settings.
    pub place: String,
    /// Every case of the suite, by rule.
    pub cases: Vec<Case>,
}

/// How one case went.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The number of the rule.
    pub rule: u8,
    /// What must be so, as a sentence.
    pub case: String,
    /// How it went.
    pub verdict: Verdict,
    /// What was seen, or why there was nothing to try.
    pub seen: String,
}

/// How a case went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As the contract says.
    Passed,
    /// Otherwise.
    Failed,
    /// The store does not claim what the case is about.
    NotApplicable,
}

impl Results {
    /// These results with those of `tried` in the place of older ones of the same store.
    #[must_use]
    pub fn with(mut self, tried: Tried) -> Self {
        self.stores.retain(|other| other.store != tried.store);
        self.stores.push(tried);
        let place = |store: &str| run::STORES.iter().position(|known| *known == store);
        self.stores.sort_by_key(|tried| place(&tried.store));
        self
    }

    /// The cases that failed, with their store.
    pub fn failed<'a>(&'a self) -> impl Iterator<Item = (&'a str, &'a Case)> {
        let of = |tried: &'a Tried| tried.cases.iter().map(|case| (tried.store.as_str(), case));
        self.stores.iter().flat_map(of).filter(|(_, case)| case.verdict == Verdict::Failed)
    }

    /// As JSON with one line for each case, so that a difference between two runs can be read.
    ///
    /// # Errors
    /// None that is known: text and numbers can always be written.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut stores = Vec::new();
        for Tried { store, place, cases } in &self.stores {
            let cases: Vec<String> = cases.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
            let (store, place) = (serde_json::to_string(store)?, serde_json::to_string(place)?);
            let cases = cases.join(",\n");
            stores.push(format!("{{\"store\":{store},\"place\":{place},\"cases\":[\n{cases}\n]}}"));
        }
        Ok(format!("{{\"stores\":[\n{}\n]}}\n", stores.join(",\n")))
    }
}

impl Tried {
    /// The report of one run.
    pub fn new(store: &str, place: String, report: &Report) -> Self {
        Self { store: store.to_owned(), place, cases: report.rows().map(Case::from).collect() }
    }

    /// The cases about one rule.
    pub fn of_rule(&self, rule: conformance::Rule) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.rule == rule.0)
    }

    /// The case that this sentence tells.
    pub fn case(&self, sentence: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.case == sentence)
    }
}

impl From<&Row> for Case {
    fn from(row: &Row) -> Self {
        let (verdict, seen) = match &row.verdict {
            conformance::Verdict::Passed(seen) => (Verdict::Passed, seen.as_str()),
            conformance::Verdict::Failed(seen) => (Verdict::Failed, seen.as_str()),
            conformance::Verdict::NotApplicable(why) => {
                (Verdict::NotApplicable, why.trim_start_matches("not applicable: "))
            }
        };
        Self { rule: row.rule.0, case: row.case.clone(), verdict, seen: seen.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(store: &str, place: &str) -> Tried {
        let case = Case { rule: 2, case: "a".to_owned(), verdict: Verdict::Failed, seen: "two".to_owned() };
        Tried { store: store.to_owned(), place: place.to_owned(), cases: vec![case] }
    }

    #[test]
    fn results_are_read_back_as_they_were_written() {
        let results = Results::default().with(tried("etcd", "\"one\"")).with(tried("memory", "here"));
        assert_eq!(serde_json::from_str::<Results>(&results.to_json().unwrap()).unwrap(), results);
    }

    #[test]
    fn a_store_that_was_tried_again_replaces_what_it_did_before_and_keeps_its_place() {
        let results = Results::default().with(tried("etcd", "old")).with(tried("memory", "m"));
        let places: Vec<_> = results.with(tried("etcd", "new")).stores.into_iter().map(|t| t.place).collect();
        assert_eq!(places, ["m", "new"]);
    }

    #[test]
    fn a_failure_is_told_with_its_store() {
        let results = Results::default().with(tried("sqlite", ""));
        let failed: Vec<_> = results.failed().map(|(store, case)| (store, case.seen.as_str())).collect();
        assert_eq!(failed, [("sqlite", "two")]);
    }
}
