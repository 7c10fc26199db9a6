//! Tries the lock conformance suite on every store and makes the table of rule × store.
//!
//! Standard output is the table, or JSON; standard error tells how far it is. It ends with 1 if a store
//! breaks a rule.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bell_locks::conformance::{AtUrl, is_worker, work};
use bell_proofs::rules::run::{STORES, Started};
use bell_proofs::rules::{Results, Tried, Verdict, page};
use bell_store::clock::boottime;
use clap::Parser;
use clap::builder::PossibleValuesParser;

/// Tries the lock contract on every store, with real servers, and prints one table of rule × store.
///
/// Examples:
///   rule-table                         all six stores, some minutes
///   rule-table --store redis --json    one store, every case with what was seen
///   rule-table --write-docs            docs/reference/rules.json and the page made from it
#[derive(Parser)]
#[command(verbatim_doc_comment)]
struct Args {
    /// Only these stores; may be repeated.
    #[arg(long = "store", value_name = "NAME", value_parser = PossibleValuesParser::new(STORES))]
    stores: Vec<String>,
    /// Prints every case as JSON.
    #[arg(long)]
    json: bool,
    /// Keeps the results in docs/reference, those of other stores as they were, and makes the page anew.
    #[arg(long)]
    write_docs: bool,
}

fn main() -> ExitCode {
    if is_worker() {
        work(&AtUrl::new(""));
        return ExitCode::SUCCESS;
    }
    match table(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rule-table: could not make the table: {error}");
            ExitCode::from(2)
        }
    }
}

fn table(args: &Args) -> io::Result<ExitCode> {
    let mut results = Results::default();
    for store in
        STORES.iter().filter(|store| args.stores.is_empty() || args.stores.iter().any(|s| s == *store))
    {
        results = results.with(tried(store)?);
    }
    if args.write_docs {
        write_docs(&results)?;
    }
    if args.json {
        print!("{}", results.to_json()?);
    } else {
        println!("{}", page::table(&results));
    }
    for (store, case) in results.failed() {
        eprintln!("{store} breaks L{}: {}: {}", case.rule, case.case, case.seen);
    }
    Ok(if results.failed().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tried(store: &str) -> io::Result<Tried> {
    eprintln!("{store}: trying …");
    let began = boottime();
    let started = Started::start(store).ok_or(io::ErrorKind::NotFound)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    let tried = runtime.block_on(started.run());
    let count = |verdict| tried.cases.iter().filter(|case| case.verdict == verdict).count();
    let (passed, failed) = (count(Verdict::Passed), count(Verdict::Failed));
    let took = boottime().saturating_sub(began).as_secs();
    eprintln!("{store}: {passed} cases passed, {failed} failed, in {took} s");
    Ok(tried)
}

fn write_docs(results: &Results) -> io::Result<()> {
    let json = docs("rules.json");
    let kept = match fs::read_to_string(&json) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Results::default(),
        Err(error) => return Err(error),
    };
    let all = results.stores.iter().cloned().fold(kept, Results::with);
    fs::write(json, all.to_json()?)?;
    fs::write(docs("rules.md"), page::page(&all))
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)
}
