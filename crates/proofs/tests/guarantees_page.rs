//! The page of guarantees is the one that its data make.

use std::path::Path;

use bell_proofs::matrix::{Fault, Store, Trial};
use bell_proofs::page::page;
use bell_proofs::result::Results;

fn reference(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    std::fs::read_to_string(path).expect("a file that fault-matrix --write-docs wrote")
}

fn results() -> Results {
    serde_json::from_str(&reference("guarantees.json")).expect("results that can be read")
}

#[test]
fn the_page_is_made_from_its_data() {
    assert_eq!(reference("guarantees.md"), page(&results()), "run fault-matrix --write-docs");
}

#[test]
fn the_page_tells_of_every_cell_and_of_none_that_is_broken() {
    let results = results();
    for store in Store::all() {
        for fault in Fault::all().iter().filter(|fault| store.trial(**fault) != Trial::Absent) {
            assert!(results.cell(*store, *fault).is_some(), "{store} × {fault} was not run");
        }
    }
    assert_eq!(results.broken().count(), 0);
}
