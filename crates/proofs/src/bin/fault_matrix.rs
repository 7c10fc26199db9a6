//! Runs stores under faults and prints what held.
//!
//! Standard output is the table, or JSON; standard error tells how far it is. It ends with 1 if the contract did not hold
//! somewhere. Started with `client` as its first argument it is a client of a cell.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bell_proofs::cell::{self, Settings};
use bell_proofs::client;
use bell_proofs::crew::CLIENT;
use bell_proofs::matrix::{Fault, Store, Trial};
use bell_proofs::page::{page, summary, table};
use bell_proofs::result::{Outcome, Results, Verdict};
use bell_store::clock::boottime;
use clap::Parser;

/// Breaks every store in every way, on purpose, and checks that what its clients saw keeps the lock contract.
///
/// It starts real servers of its own on free ports, and takes root for full disks.
///
/// Examples:
///   fault-matrix                                        every cell, some 15 minutes
///   fault-matrix --store redis --fault cut-both         one cell
///   fault-matrix --store postgres --seconds 10 --json   one store, each fault for 10 s
///   fault-matrix --write-docs                           docs/reference/guarantees.json and the page made from it
#[derive(Parser)]
#[command(verbatim_doc_comment)]
struct Args {
    /// Only these stores; may be repeated.
    #[arg(long = "store", value_name = "NAME", value_enum)]
    stores: Vec<Store>,
    /// Only these faults; may be repeated.
    #[arg(long = "fault", value_name = "NAME", value_enum)]
    faults: Vec<Fault>,
    /// How long each fault lasts.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=8))]
    seconds: u64,
    /// Keeps what the clients of each cell wrote down, a file each, in this folder.
    #[arg(long, value_name = "FOLDER")]
    histories: Option<PathBuf>,
    /// Prints which cells there are, and runs none.
    #[arg(long)]
    list: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Writes what was seen to docs/reference/guarantees.json, beside what was seen before of other cells, and the
    /// page made from it.
    #[arg(long)]
    write_docs: bool,
}

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(CLIENT) {
        let orders = arguments.next().context("a client needs orders")?;
        client::run(&serde_json::from_str(&orders)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let args = Args::parse();
    let cells = args.cells();
    if args.list {
        cells.iter().for_each(|(store, fault)| println!("{store} × {fault}: {}", fault.says()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.histories {
        // Before the first cell: without a place for its history a cell that held would count as broken.
        std::fs::create_dir_all(folder)
            .with_context(|| format!("could not make the folder {}", folder.display()))?;
    }
    let program = std::env::current_exe()?;
    let lasts = Duration::from_secs(args.seconds);
    let settings = Settings { program: &program, lasts, flaw: None, histories: args.histories.as_deref() };
    let mut results = Results::default();
    for (number, (store, fault)) in cells.iter().enumerate() {
        eprint!("{:>2}/{} {store} × {fault}: ", number + 1, cells.len());
        let started = boottime();
        let outcome = run(*store, *fault, settings);
        eprintln!("{} [{} s]", outcome.words(), (boottime() - started).as_secs());
        results.add(outcome);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print!("{}", table(&results, &args.stores()));
        println!("\n{}", summary(&results));
    }
    if args.write_docs {
        write_docs(&results)?;
    }
    Ok(if results.broken().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn stores(&self) -> Vec<Store> {
        if self.stores.is_empty() { Store::all().to_vec() } else { self.stores.clone() }
    }

    fn cells(&self) -> Vec<(Store, Fault)> {
        let faults = if self.faults.is_empty() { Fault::all() } else { &self.faults };
        let all = self.stores().into_iter().flat_map(|store| faults.iter().map(move |fault| (store, *fault)));
        all.filter(|(store, fault)| store.trial(*fault) != Trial::Absent).collect()
    }
}

/// A cell that could not be run is broken, and the others go on. What starts servers panics if it can't.
fn run(store: Store, fault: Fault, settings: Settings<'_>) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| cell::run(store, fault, settings)));
    let why = match outcome {
        Ok(Ok(outcome)) => return outcome,
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => "a server could not be started, or ended".to_owned(),
    };
    Outcome::untried(store, fault, Verdict::Broken, &why)
}

fn write_docs(results: &Results) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let (data, text): (PathBuf, PathBuf) = (folder.join("guarantees.json"), folder.join("guarantees.md"));
    let mut all: Results = match std::fs::read(&data) {
        Ok(before) => serde_json::from_slice(&before).context("could not read guarantees.json")?,
        Err(_) => Results::default(),
    };
    results.cells.iter().for_each(|cell| all.add(cell.clone()));
    std::fs::write(data, serde_json::to_string_pretty(&all)? + "\n")?;
    std::fs::write(text, page(&all))?;
    Ok(())
}
