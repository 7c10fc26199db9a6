//! Plays stories of a simulated fleet: many seeds, or one again.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use bell_sim::flaws::Flaw;
use bell_sim::journal::Keep;
use bell_sim::story::{Play, Told, play_and_explain};
use bell_sim::tally::Tally;
use bell_store::clock::boottime;
use clap::Parser;
use serde_json::json;

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Plays stories of a simulated fleet and checks its invariants. Exit code 1: one did not hold.
#[derive(Parser)]
#[command(after_help = "Examples:
  bell-sim --seeds 10000          ten thousand stories, one seed each
  bell-sim --seed 42 --trace      one story again, told as it happens
  bell-sim --flaw blind-sink      with something wrong on purpose: it must be caught")]
struct Args {
    /// How many seeds to play.
    #[arg(long, default_value_t = 1_000, conflicts_with = "seed")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1, conflicts_with = "seed")]
    from: u64,
    /// Play only this one.
    #[arg(long)]
    seed: Option<u64>,
    /// Tell everything as it happens, on stderr.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Make something wrong on purpose.
    #[arg(long)]
    flaw: Option<Flaw>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// What came of all stories.
#[derive(Default)]
struct Sum {
    seeds: u64,
    commits: u64,
    requests: u64,
    lived: Duration,
    tally: Tally,
    failed: Option<Told>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let started = boottime();
    let (first, count) = args.seed.map_or((args.from, args.seeds), |seed| (seed, 1));
    let keep = if args.trace { Keep::Trace } else { Keep::Nothing };
    let mut progress = Progress::new(count);
    let mut sum = Sum::default();
    for seed in first..first.saturating_add(count) {
        let told = play_and_explain(Play { seed, flaw: args.flaw, keep })?;
        sum.seeds += 1;
        sum.commits += told.commits;
        sum.requests += told.requests;
        sum.lived += told.lasted;
        sum.tally.add(&told.tally);
        progress.show(&sum);
        if told.broken.is_some() {
            sum.failed = Some(told);
            break;
        }
    }
    progress.clear();
    let took = boottime().saturating_sub(started);
    report(&args, &sum, took);
    Ok(if sum.failed.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(args: &Args, sum: &Sum, took: Duration) {
    if let Some(told) = &sum.failed {
        eprintln!("{}", told.explain(args.flaw));
    }
    if args.json {
        let failed = sum.failed.as_ref().map(|told| {
            let broken = told.broken.as_ref();
            json!({
                "seed": told.seed,
                "invariant": broken.map(|broken| broken.invariant),
                "message": broken.map(|broken| &broken.message),
                "events": told.end,
            })
        });
        let summary = json!({
            "seeds": sum.seeds, "commits": sum.commits, "requests": sum.requests, "failed": failed,
            "simulated_seconds": sum.lived.as_secs(), "seconds": took.as_secs_f64(), "happened": sum.tally.0,
        });
        println!("{summary}");
    } else if sum.failed.is_none() {
        let (hours, seconds) = (sum.lived.as_secs_f64() / 3_600.0, took.as_secs_f64());
        println!(
            "{} seeds, {hours:.1} simulated hours, {} requests and {} commits in {seconds:.1} s: every invariant held",
            sum.seeds, sum.requests, sum.commits
        );
    }
}

/// How far it is, on a terminal.
struct Progress {
    all: u64,
    shown: Duration,
    on_terminal: bool,
}

impl Progress {
    fn new(all: u64) -> Self {
        Self { all, shown: boottime(), on_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, sum: &Sum) {
        let now = boottime();
        if self.on_terminal && now.saturating_sub(self.shown) >= SHOW_EVERY {
            self.shown = now;
            eprint!("\r{} of {} seeds, {} commits", sum.seeds, self.all, sum.commits);
            // What can't be shown is not missed.
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.on_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
