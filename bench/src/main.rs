//! How fast locks and the scheduler are on this machine, beside what its disk can do in the same run.
//!
//! | module | what is measured, or what for |
//! | --- | --- |
//! | `limits` | syncs and SQLite commits per second without Bellwether |
//! | `requests` | what one act asks of the store |
//! | `pairs` | acquire and release, per second |
//! | `handover` | from a release to the next waiter's answer |
//! | `bytes` | what a held lock takes |
//! | `deadlock` | looking for a cycle among 10,000 who wait |
//! | `recipes` | Redis, PostgreSQL and etcd, beside their own recipes |
//! | `scheduler` | the daemon: triggers, starts, idling, queues |
//! | `webhooks` | deliveries over HTTP |
//! | `http` | locks over HTTP, beside an empty handler |
//! | `folder` | claims from a queue in a folder, beside `mv` and SQLite |
//! | `targets` | whether the goals are met; it never fails |
//! | `bench`, `stores`, `worker` | the folder and pace of a run; opening stores; other processes |
//! | `figures`, `table` | percentiles; Markdown |

mod bench;
mod bytes;
mod deadlock;
mod figures;
mod folder;
mod handover;
mod http;
mod limits;
mod pairs;
mod recipes;
mod requests;
mod scheduler;
mod stores;
mod table;
mod targets;
mod webhooks;
mod worker;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde::Serialize;

use bench::{Bench, Pace};
use table::Table;
use targets::Target;

/// As in `bell`: servers that are measured here without it are to be what they are there.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures locks and the scheduler on this machine. Prints Markdown, or JSON.
#[derive(Parser)]
struct Args {
    /// What to measure.
    #[arg(value_enum, default_value_t = Topic::All)]
    topic: Topic,
    /// Takes a tenth of the time, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Where stores are created and removed again. A folder in memory says nothing about disks.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// Measures recipes on this server only.
    #[arg(long, value_enum)]
    engine: Option<recipes::Engine>,
    /// Measures only this of locks over HTTP.
    #[arg(long, value_enum)]
    part: Option<http::Part>,
    /// The `bell` that the scheduler is measured with; the one beside this program, if not given.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Carries out an order of another process of this program.
    #[arg(long, hide = true)]
    worker: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Topic {
    All,
    Limits,
    Requests,
    Pairs,
    Handover,
    Bytes,
    Deadlock,
    Recipes,
    Scheduler,
    Webhooks,
    Folder,
    Http,
}

/// Everything that was measured.
#[derive(Default, Serialize)]
struct Report {
    limits: Option<limits::Limits>,
    requests: Option<Vec<requests::Requests>>,
    pairs: Option<Vec<pairs::Pairs>>,
    handover: Option<Vec<handover::Handover>>,
    bytes: Option<Vec<bytes::Bytes>>,
    deadlock: Option<Vec<deadlock::Check>>,
    recipes: Option<recipes::Recipes>,
    scheduler: Option<scheduler::Scheduler>,
    webhooks: Option<Vec<webhooks::Deliveries>>,
    folder: Option<Vec<folder::Claims>>,
    http: Option<http::Http>,
    targets: Vec<Target>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(order) = &args.worker {
        return worker::carry_out(order);
    }
    let pace = if args.quick { Pace::Quick } else { Pace::Thorough };
    let bench = Bench::new(&args.folder, pace)?;
    let report = measure(&bench, &args)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.tables().iter().for_each(|table| println!("{table}"));
    }
    Ok(())
}

fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let wants = |one: Topic| args.topic == one || args.topic == Topic::All;
    let mut report = Report::default();
    // Pairs are judged by the disk of the same run.
    if wants(Topic::Limits) || wants(Topic::Pairs) {
        report.limits = Some(limits::measure(bench)?);
    }
    if wants(Topic::Requests) {
        report.requests = Some(requests::measure(bench)?);
    }
    if wants(Topic::Pairs) {
        report.pairs = Some(pairs::measure(bench)?);
    }
    if wants(Topic::Handover) {
        report.handover = Some(handover::measure(bench)?);
    }
    if wants(Topic::Bytes) {
        report.bytes = Some(bytes::measure(bench)?);
    }
    if wants(Topic::Deadlock) {
        report.deadlock = Some(deadlock::measure(bench)?);
    }
    if wants(Topic::Recipes) {
        report.recipes = Some(recipes::measure(bench, args.engine)?);
    }
    if wants(Topic::Scheduler) {
        report.scheduler = Some(scheduler::measure(bench, args.program.as_deref())?);
    }
    if wants(Topic::Webhooks) {
        report.webhooks = Some(webhooks::measure(bench, args.program.as_deref())?);
    }
    if wants(Topic::Folder) {
        report.folder = Some(folder::measure(bench)?);
    }
    if wants(Topic::Http) {
        report.http = Some(http::measure(bench, args.program.as_deref(), args.part)?);
    }
    report.targets = targets::judge(&report);
    Ok(report)
}

impl Report {
    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        tables.extend(self.limits.as_ref().map(limits::table));
        tables.extend(self.requests.as_deref().map(requests::table));
        tables.extend(self.pairs.as_deref().map(pairs::table));
        tables.extend(self.handover.as_deref().map(handover::table));
        tables.extend(self.bytes.as_deref().map(bytes::table));
        tables.extend(self.deadlock.as_deref().map(deadlock::table));
        tables.extend(self.recipes.iter().flat_map(recipes::tables));
        tables.extend(self.scheduler.iter().flat_map(scheduler::tables));
        tables.extend(self.webhooks.as_deref().map(webhooks::table));
        tables.extend(self.folder.as_deref().map(folder::table));
        tables.extend(self.http.iter().flat_map(http::tables));
        if !self.targets.is_empty() {
            tables.push(targets::table(&self.targets));
        }
        tables
    }
}
