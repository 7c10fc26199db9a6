//! The page of guarantees, made from the results of a run.

use std::fmt::Write as _;

use crate::matrix::{Fault, Store, Trial};
use crate::result::{Results, Verdict};

const HEAD: &str = "\
# What holds under which fault

Made by `cargo run -p bell-proofs --bin fault-matrix -- --write-docs`; do not edit. Five clients, processes of their own, take three keys from each
other on a real store, keep some leases alive, let others run out, and write behind a guard, while one thing is broken on purpose for some seconds and then mended.
Every question and answer is written down, and a checker goes through it:

- the answers about each key are those of one mutex with fences, in some order that the times allow;
- fences rise; the guard never takes a lower one after a higher one;
- nobody is granted a key before the lease on it can have run out, and no two holders rely on a key at the same time;
- what was given back is free and goes to whoever waits; once the fault is over every key can be had again.

**held** means that all of this was so. *Unserved* is the longest time from the fault on in which no lease at all was granted or renewed: locks
fail closed. Where the documents call a set-up **unsafe**, the store must say so itself (`bell store info`) and `bell doctor` must call it unsafe; the table tells what was
seen.
";

const FOOT: &str = "
A cell by itself: `cargo run -p bell-proofs --bin fault-matrix -- --store redis --fault cut-both`. All of them: the same without options.
";

/// The page.
pub fn page(results: &Results) -> String {
    let mut page = HEAD.to_owned();
    let alone: Vec<Store> = Store::all().iter().copied().filter(|store| has_several(*store)).collect();
    let pairs: Vec<Store> = Store::all().iter().copied().filter(|store| !has_several(*store)).collect();
    page.push_str("\n## One place\n\n");
    page.push_str(&table(results, &alone));
    page.push_str("\n## Fail-over\n\n");
    for store in pairs {
        let words =
            results.cell(store, Fault::FailOver).map_or_else(|| "not run".to_owned(), |cell| cell.words());
        let _ = writeln!(page, "- `{store}`: {words}.");
    }
    page.push_str("\n## The places\n\n");
    for store in Store::all() {
        let cell = results.cells.iter().find(|cell| cell.store == *store && !cell.place.is_empty());
        if let Some(cell) = cell {
            let _ = writeln!(page, "- `{store}`: {}; {}", cell.place, cell.on);
        }
    }
    page.push_str(FOOT);
    page
}

/// Stores × faults, a line for each fault that was tried on one of them.
pub fn table(results: &Results, stores: &[Store]) -> String {
    let mut table = String::from("| fault |");
    stores.iter().for_each(|store| table.push_str(&format!(" {store} |")));
    table.push_str("\n| --- |");
    stores.iter().for_each(|_| table.push_str(" --- |"));
    table.push('\n');
    let was_tried = |fault: &Fault| stores.iter().any(|store| results.cell(*store, *fault).is_some());
    for fault in Fault::all().iter().copied().filter(was_tried) {
        let _ = write!(table, "| {} |", fault.says());
        for store in stores {
            let words = match (results.cell(*store, fault), store.trial(fault)) {
                (_, Trial::Absent) => "—".to_owned(),
                (Some(cell), _) => cell.words(),
                (None, _) => "not run".to_owned(),
            };
            let _ = write!(table, " {} |", words.replace('|', "\\|"));
        }
        table.push('\n');
    }
    table
}

/// Whether more than one fault is tried on it.
fn has_several(store: Store) -> bool {
    Fault::all().iter().filter(|fault| store.trial(**fault) != Trial::Absent).count() > 1
}

/// One line for the end of a run.
pub fn summary(results: &Results) -> String {
    let count = |verdict| results.cells.iter().filter(|cell| cell.verdict == verdict).count();
    format!(
        "{} held, {} unsafe as told, {} not injected, {} broken",
        count(Verdict::Held),
        count(Verdict::Unsafe),
        count(Verdict::NotInjected),
        count(Verdict::Broken)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Outcome;

    #[test]
    fn the_table_has_a_line_for_every_fault_that_was_tried() {
        let mut results = Results::default();
        results.add(Outcome::untried(Store::Redis, Fault::Reset, Verdict::Held, ""));
        let table = table(&results, &[Store::Sqlite, Store::Redis]);
        let line = table.lines().find(|line| line.contains("reset")).unwrap();
        assert!(line.contains("| — | held"), "{line}");
        assert!(!table.contains(Fault::FailOver.says()), "{table}");
    }
}
