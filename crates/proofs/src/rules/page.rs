//! The page of rule × store, made from results and nothing else.

use std::fmt::Write;

use bell_locks::conformance::Rule;

use super::{Case, Results, Tried, Verdict};

const HEAD: &str = "\
# The contract on every store

Every rule of [the contract](../contract.md) has cases in the conformance suite (`bell_locks::conformance`), and the suite was tried on every store, with
real servers, and with processes that are killed, paused, raced against each other and given a wrong clock. «5 of 5» means that five cases were tried
and passed. A case about something that a store does not claim is not tried, and named below. CI tries the same suite on each store as a test.

Made from [rules.json](rules.json), which has every case with what was seen, by `cargo run -p bell-proofs --bin rule-table -- --write-docs`. Not
edited by hand.
";

const SEEN: &str = "
## What was seen

In one run on each store, on a machine with 2 cores that others used too. The times show that something happened in time, not how fast a store is.
";

/// Cases whose evidence is a figure worth reading.
pub const TELLING: [&str; 8] = [
    "two processes racing for a key never both have it",
    "a race has one winner",
    "no wake up is lost",
    "of those who close a cycle at once exactly one is refused",
    "a clock an hour ahead changes nothing",
    "what a killed process held is free in time",
    "a paused process never writes again",
    "a stale writer never writes again",
];

/// The whole page.
pub fn page(results: &Results) -> String {
    let mut page = format!("{HEAD}\n{}", table(results));
    page.push_str("\n## Where it was tried\n\n| store | what it was |\n| --- | --- |\n");
    for Tried { store, place, .. } in &results.stores {
        put(&mut page, format_args!("| `{store}` | {place} |"));
    }
    page.push_str("\n## What was not applicable\n\n| store | why | cases |\n| --- | --- | --- |\n");
    results.stores.iter().for_each(|tried| not_applicable(&mut page, tried));
    page.push_str(SEEN);
    TELLING.iter().for_each(|sentence| seen(&mut page, results, sentence));
    page.push_str("\n## The cases\n\n");
    Rule::all().for_each(|rule| cases(&mut page, results, rule));
    page
}

/// The table alone: a row for each rule, a column for each store.
pub fn table(results: &Results) -> String {
    let mut table = "| rule | what it says |".to_owned();
    results.stores.iter().for_each(|tried| table.push_str(&format!(" {} |", tried.store)));
    table.push_str("\n| --- | --- |");
    results.stores.iter().for_each(|_| table.push_str(" --- |"));
    table.push('\n');
    for rule in Rule::all() {
        let cells: Vec<String> = results.stores.iter().map(|tried| cell(tried, rule)).collect();
        put(&mut table, format_args!("| {rule} | {} | {} |", rule.saying(), cells.join(" | ")));
    }
    let sums: Vec<String> = results.stores.iter().map(sum).collect();
    put(&mut table, format_args!("| | all cases | {} |", sums.join(" | ")));
    table
}

/// How one rule went on one store.
fn cell(tried: &Tried, rule: Rule) -> String {
    told(tried.of_rule(rule))
}

fn sum(tried: &Tried) -> String {
    told(tried.cases.iter())
}

fn told<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let (mut passed, mut failed) = (0, 0);
    for case in cases {
        match case.verdict {
            Verdict::Passed => passed += 1,
            Verdict::Failed => failed += 1,
            Verdict::NotApplicable => {}
        }
    }
    match (passed, failed) {
        (0, 0) => "not applicable".to_owned(),
        (_, 0) => format!("{passed} of {passed}"),
        _ => format!("**{failed} of {} failed**", passed + failed),
    }
}

/// One row for each reason.
fn not_applicable(page: &mut String, tried: &Tried) {
    let left_out: Vec<&Case> =
        tried.cases.iter().filter(|case| case.verdict == Verdict::NotApplicable).collect();
    let mut reasons: Vec<&str> = left_out.iter().map(|case| case.seen.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        let cases: Vec<String> = left_out
            .iter()
            .filter(|case| case.seen == why)
            .map(|case| format!("L{} {}", case.rule, case.case))
            .collect();
        put(page, format_args!("| `{}` | {why} | {} |", tried.store, cases.join("; ")));
    }
}

/// One line for all stores that saw the same.
fn seen(page: &mut String, results: &Results, sentence: &str) {
    let of = |tried: &'_ Tried| Some((format!("`{}`", tried.store), tried.case(sentence)?.clone()));
    let tried: Vec<(String, Case)> = results.stores.iter().filter_map(of).collect();
    let Some((_, first)) = tried.first() else { return };
    put(page, format_args!("\n**L{}: {sentence}**\n", first.rule));
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for (store, case) in tried.iter().filter(|(_, case)| case.verdict != Verdict::NotApplicable) {
        match lines.iter_mut().find(|(_, seen)| *seen == case.seen) {
            Some((stores, _)) => stores.push(store),
            None => lines.push((vec![store], &case.seen)),
        }
    }
    for (stores, seen) in lines {
        put(page, format_args!("- {}: {seen}", stores.join(", ")));
    }
}

fn cases(page: &mut String, results: &Results, rule: Rule) {
    let Some(tried) = results.stores.first() else { return };
    let sentences: Vec<&str> = tried.of_rule(rule).map(|case| case.case.as_str()).collect();
    put(page, format_args!("- **{rule}** {}", sentences.join("; ")));
}

fn put(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = writeln!(page, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(rule: u8, verdict: Verdict, seen: &str) -> Case {
        Case { rule, case: format!("case of {rule}"), verdict, seen: seen.to_owned() }
    }

    fn results(cases: Vec<Case>) -> Results {
        let place = "here".to_owned();
        Results { stores: vec![Tried { store: "memory".to_owned(), place, cases }] }
    }

    fn row(results: &Results, rule: &str) -> String {
        let table = table(results);
        table.lines().find(|line| line.contains(&format!("| {rule} |"))).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_cell_counts_only_what_was_tried() {
        let results = results(vec![
            case(2, Verdict::Passed, "one"),
            case(2, Verdict::NotApplicable, "one process only"),
            case(10, Verdict::NotApplicable, "one process only"),
        ]);
        assert!(row(&results, "L2").ends_with("| 1 of 1 |"), "{}", table(&results));
        assert!(row(&results, "L10").ends_with("| not applicable |"), "{}", table(&results));
        assert!(page(&results).contains("| one process only | L2 case of 2; L10 case of 10 |"));
    }

    #[test]
    fn one_failure_is_the_answer_of_its_rule_and_of_the_store() {
        let results = results(vec![case(2, Verdict::Passed, "one"), case(2, Verdict::Failed, "two winners")]);
        assert!(row(&results, "L2").ends_with("| **1 of 2 failed** |"), "{}", table(&results));
        assert!(row(&results, "all cases").ends_with("| **1 of 2 failed** |"), "{}", table(&results));
    }
}
