//! The page about `bell verify` tells of every check, in the words of the code.

use std::path::Path;

use bell_verify::{CHECKS, Check};

#[test]
fn the_page_has_the_table_of_checks() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/verify-a-store.md");
    let page = std::fs::read_to_string(page).unwrap();
    let row =
        |check: &Check| format!("| `{}` | {} | {} |", check.name, check.rule_names().join(" "), check.proves);
    let table: Vec<String> = CHECKS.iter().map(row).collect();
    assert!(page.contains(&table.join("\n")), "the table should read:\n{}", table.join("\n"));
}
