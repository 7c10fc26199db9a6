//! The page on security has a row for every threat, and names tests that are there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const THREATS: u32 = 24;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/reference/security.md")).unwrap()
}

#[test]
fn every_threat_has_a_row_in_order() {
    let page = page();
    let rows: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| X")?.split(' ').next()).collect();
    let wanted: Vec<String> = (1..=THREATS).map(|number| number.to_string()).collect();
    assert_eq!(rows, wanted);
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let page = page();
    let named: Vec<(&str, &str)> = page.split('`').filter_map(|quoted| quoted.split_once(".rs::")).collect();
    assert!(named.len() > 40, "{} tests are named", named.len());
    for (file, name) in named {
        let text = fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
        assert!(text.contains(&format!("fn {name}(")), "there is no test {name} in {file}.rs");
    }
}
