//! The page of rule × store says what the kept results say, and these are of the suite as it is now.

use std::path::{Path, PathBuf};

use bell_locks::conformance;
use bell_proofs::rules::run::STORES;
use bell_proofs::rules::{Results, page};

const AGAIN: &str = "run cargo run -p bell-proofs --bin rule-table -- --write-docs";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)
}

fn docs(name: &str) -> String {
    std::fs::read_to_string(path(name)).expect("a page of the reference")
}

fn kept() -> Results {
    serde_json::from_str(&docs("rules.json")).expect("results of the suite")
}

#[test]
fn the_page_is_made_from_the_kept_results() {
    let results = kept();
    if std::env::var_os("BELL_WRITE_DOCS").is_some() {
        std::fs::write(path("rules.md"), page::page(&results)).unwrap();
    }
    assert!(docs("rules.md") == page::page(&results), "docs/reference/rules.md is out of date: {AGAIN}");
    assert!(docs("rules.json") == results.to_json().unwrap(), "rules.json was edited: {AGAIN}");
}

#[test]
fn every_case_of_the_suite_was_tried_on_every_store() {
    let suite: Vec<(u8, String)> =
        conformance::cases().into_iter().map(|(rule, case)| (rule.0, case)).collect();
    let results = kept();
    let stores: Vec<&str> = results.stores.iter().map(|tried| tried.store.as_str()).collect();
    assert_eq!(stores, STORES, "{AGAIN}");
    for tried in &results.stores {
        let cases: Vec<(u8, String)> =
            tried.cases.iter().map(|case| (case.rule, case.case.clone())).collect();
        assert_eq!(cases, suite, "the results of {} are of another suite: {AGAIN}", tried.store);
    }
}

#[test]
fn no_store_breaks_a_rule() {
    let results = kept();
    assert_eq!(results.failed().collect::<Vec<_>>(), [], "{AGAIN}");
}

#[test]
fn every_figure_that_the_page_shows_is_of_a_case_that_exists() {
    let suite = conformance::cases();
    for sentence in page::TELLING {
        assert!(suite.iter().any(|(_, case)| case == sentence), "no case is called {sentence:?}");
    }
}
