//! The page of what users must see names tests that are there, and every test is on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What must be on the page: each with at least one test.
const BEHAVIOURS: &str =
    "C1,C2,C3,C4,S1,S2,S3,S4,S5,S6,S7,S8,S9,S10,S11,S12,S13,S14,S15,S16,S17,G5,Wrong input";

/// Files in which every test is about one of them.
const ALL_OF: [&str; 14] = [
    "accept/container.rs",
    "accept/cron.rs",
    "accept/holding.rs",
    "accept/hostile.rs",
    "accept/isolation.rs",
    "accept/lock_waits.rs",
    "accept/logs.rs",
    "accept/newcomers.rs",
    "accept/no_means.rs",
    "accept/project.rs",
    "accept/runs.rs",
    "accept/work.rs",
    "fleet/both.rs",
    "fleet/campaign.rs",
];

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The names of the tests in a file.
fn names(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(tests().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test = |at: usize| {
        lines[..at].iter().rev().take(3).any(|line| *line == "#[test]" || *line == "#[tokio::test]")
    };
    let named = lines.iter().enumerate().filter(|(at, line)| line.contains("fn ") && is_test(*at));
    named.filter_map(|(_, line)| Some(line.split_once("fn ")?.1.split('(').next()?.to_owned())).collect()
}

/// The rows of the page: what they are about, and the tests that they name, as file and name.
fn page() -> Vec<(String, Vec<(String, String)>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/acceptance.md");
    let text = fs::read_to_string(page).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.contains(".rs::"));
    let row = |line: &str| {
        let about = line.split('|').nth(1).unwrap().trim().to_owned();
        let quoted = line.split('`').skip(1).step_by(2);
        let named = quoted.filter_map(|test| test.split_once("::"));
        (about, named.map(|(file, name)| (file.to_owned(), name.to_owned())).collect())
    };
    rows.map(row).collect()
}

#[test]
fn every_test_that_the_page_names_is_there() {
    for (about, named) in page() {
        for (file, name) in named {
            assert!(names(&file).contains(&name), "{about}: there is no test {name} in {file}");
        }
    }
}

#[test]
fn every_behaviour_has_a_test() {
    let covered: BTreeSet<String> = page().into_iter().map(|(about, _)| about).collect();
    for behaviour in BEHAVIOURS.split(',') {
        assert!(covered.contains(behaviour), "no test of {behaviour} is on the page");
    }
}

#[test]
fn every_test_of_these_files_is_on_the_page() {
    let named: BTreeSet<(String, String)> = page().into_iter().flat_map(|(_, named)| named).collect();
    for file in ALL_OF {
        for name in names(file) {
            assert!(named.contains(&(file.to_owned(), name.clone())), "{file}::{name} is not on the page");
        }
    }
}
