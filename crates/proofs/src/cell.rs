//! One cell of the matrix: a store, its clients, a fault, and what came of it.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bell_locks::open::{open_store, raise_epoch};
use bell_store::clock::{boottime, wall};
use bell_store::info::FailOver;
use bell_verify::doctor::{self, Level};

use crate::check::{self, Expected, Violation};
use crate::client::QUICK;
use crate::crew::{Clocks, Crew, PROBE};
use crate::fault::{self, Ground};
use crate::flaw::Flaw;
use crate::history::{Entry, History, What, Window, now_us};
use crate::matrix::{Fault, Store, Trial};
use crate::result::{Counts, Outcome, Verdict};
use crate::stage::{
    Disk, EtcdStage, Files, PostgresPair, PostgresStage, RedisPair, RedisStage, Replication, Side, Stage,
    usual_place,
};

/// Leases that must have been granted before anything is broken.
const WARM: usize = 12;

/// Between two steps of a fault.
const STEP: Duration = Duration::from_millis(250);

/// How long clients go on once it is mended.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Longer than any short lease: an operator waits that long before raising the epoch.
const LEASES_RUN_OUT: Duration = Duration::from_secs(3);

/// How a cell is run.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// What becomes a client when it is told to ([`crate::crew::CLIENT`]).
    pub program: &'a Path,
    /// How long the fault lasts. More than the longest short ttl, or it proves little.
    pub lasts: Duration,
    /// What the clients get wrong.
    pub flaw: Option<Flaw>,
    /// A folder to keep what the clients wrote down.
    pub histories: Option<&'a Path>,
}

/// Runs a cell and judges it.
///
/// # Errors
/// If it could not be run.
pub fn run(store: Store, fault: Fault, settings: Settings<'_>) -> Result<Outcome> {
    let (place, seen) = match store.trial(fault) {
        Trial::Absent => return Ok(Outcome::untried(store, fault, Verdict::Absent, "")),
        Trial::NotInjected(why) => return Ok(Outcome::untried(store, fault, Verdict::NotInjected, why)),
        Trial::Holds | Trial::Unsafe => play(store, fault, settings)?,
    };
    let expected = Expected { probe: PROBE, probed: &QUICK };
    let counts = Counts::of(&seen.history, seen.stopped_us);
    let mut violations = match store.trial(fault) {
        Trial::Unsafe => check::recovery::check(&seen.history, expected),
        _ => check::all(&seen.history, expected),
    };
    violations.extend(seen.complaints);
    let mut told: Vec<String> = violations.iter().map(Violation::to_string).collect();
    let verdict = match (violations.is_empty(), store.trial(fault)) {
        (false, _) => Verdict::Broken,
        (true, Trial::Unsafe) => {
            told.extend(what_was_lost(&seen.history, seen.raised_us));
            Verdict::Unsafe
        }
        (true, _) => Verdict::Held,
    };
    let on = bell_api::rfc3339::rfc3339(u64::try_from(wall().as_millis())?);
    let on = on.split('T').next().unwrap_or_default().to_owned();
    Ok(Outcome { store, fault, verdict, place, on, counts, seen: told })
}

/// What a cell left behind.
struct Seen {
    history: History,
    /// When the clients were told to stop.
    stopped_us: u64,
    /// When an operator let commits go on.
    raised_us: Option<u64>,
    /// What was wrong besides the history.
    complaints: Vec<Violation>,
}

fn play(store: Store, name: Fault, settings: Settings<'_>) -> Result<(String, Seen)> {
    let disk = (name == Fault::FullDisk).then(|| Disk::of(disk_mebibytes(store))).transpose()?;
    let mut stage = stage(store, disk.as_ref().map_or(&usual_place(), |disk| disk.path()))?;
    let place = stage.place();
    let clocks = if name == Fault::ClientClock { Clocks::Settable } else { Clocks::Right };
    let mut crew = Crew::new(settings.program, clocks, settings.flaw)?;
    crew.start(stage.as_ref())?;
    crew.warm_up(WARM)?;

    let mut complaints = misjudged_fail_over(store, stage.as_ref())?;
    let mut fault = fault::fault(name);
    let mut ground = Ground { stage: stage.as_mut(), crew: &mut crew, disk: disk.as_ref() };
    let from_us = now_us();
    fault.inject(&mut ground).context("could not break it")?;
    let (started, lasts) = (boottime(), settings.lasts);
    while boottime() < started + lasts {
        sleep(STEP);
        let percent = (boottime() - started).as_millis() * 100 / lasts.as_millis().max(1);
        fault.go_on(&mut ground, u32::try_from(percent.min(100))?).context("could not break it further")?;
    }
    fault.heal(&mut ground).context("could not mend it")?;
    let window = Window { from_us, to_us: now_us() };

    let raised_us = match store.trial(name) {
        Trial::Unsafe => Some(let_commits_go_on(stage.as_ref())?),
        _ => None,
    };
    sleep(AFTERWARDS);
    let stopped_us = now_us();
    crew.stop()?;
    crew.probe(stage.as_ref())?;

    let entries = crew.entries()?;
    if let Some(folder) = settings.histories {
        keep(&entries, &folder.join(format!("{store}-{name}.jsonl")))
            .context("could not keep the history")?;
    }
    if name == Fault::ClientClock && !saw_a_wrong_clock(&entries) {
        complaints.push(complaint("no client's clock was off"));
    }
    let mut history = History::of(entries);
    history.fault = window;
    history.sink = crew.sink().accepted()?;
    ensure!(!history.sink.is_empty(), "no client wrote anything");
    if !was_felt(name, &history, stopped_us, settings.lasts, crew.near()) {
        complaints.push(complaint("the clients went on as if nothing was broken"));
    }
    Ok((place, Seen { history, stopped_us, raised_us, complaints }))
}

fn stage(store: Store, below: &Path) -> Result<Box<dyn Stage>> {
    Ok(match store {
        Store::Sqlite => Box::new(Files::new("sqlite", below)?),
        Store::File => Box::new(Files::new("file", below)?),
        Store::Redis => Box::new(RedisStage::start(below)?),
        Store::Postgres => Box::new(PostgresStage::start(below)?),
        Store::Etcd => Box::new(EtcdStage::start(below, 1)?),
        Store::EtcdCluster => Box::new(EtcdStage::start(below, 3)?),
        Store::PostgresSync => Box::new(PostgresPair::start(Replication::Synchronous)),
        Store::PostgresAsync => Box::new(PostgresPair::start(Replication::Asynchronous)),
        Store::RedisSentinel => Box::new(RedisPair::start()?),
    })
}

/// Enough for a store that is new, with what its engine sets aside at the start.
fn disk_mebibytes(store: Store) -> u32 {
    match store {
        Store::Postgres => 128,
        Store::Etcd => 192,
        _ => 8,
    }
}

/// A store must say itself what a fail-over costs, and `bell doctor` must judge it so.
fn misjudged_fail_over(store: Store, stage: &dyn Stage) -> Result<Vec<Violation>> {
    let costs = match store {
        Store::PostgresAsync | Store::RedisSentinel => FailOver::Loses,
        Store::PostgresSync | Store::EtcdCluster => FailOver::Kept,
        Store::Sqlite | Store::File | Store::Redis | Store::Postgres | Store::Etcd => FailOver::None,
    };
    let mut wrong = Vec::new();
    let url = stage.url(Side::Far);
    block_on(async {
        let store = open_store(&url).await?;
        let told = store.info().fail_over;
        if told != costs {
            wrong.push(complaint(&format!("it says of a fail-over {told:?}, which is {costs:?}")));
        }
        if costs != FailOver::None {
            let found = doctor::look(&store).await.findings;
            let is_unsafe =
                found.iter().any(|finding| finding.about == "fail-over" && finding.level == Level::Unsafe);
            if is_unsafe != (costs == FailOver::Loses) {
                wrong.push(complaint(&format!("`bell doctor` misjudges a fail-over: {found:?}")));
            }
        }
        Ok(wrong)
    })
}

/// What the operator does after a fail-over that may have lost something. When that was.
fn let_commits_go_on(stage: &dyn Stage) -> Result<u64> {
    sleep(LEASES_RUN_OUT);
    let raised_us = now_us();
    block_on(async { Ok(raise_epoch(&stage.url(Side::Far)).await?) }).context("could not raise the epoch")?;
    Ok(raised_us)
}

/// What a fail-over did that the documents call unsafe.
fn what_was_lost(history: &History, raised_us: Option<u64>) -> Vec<String> {
    let raised_us = raised_us.unwrap_or(u64::MAX);
    let between = |op: &&crate::history::Op| op.asked_us > history.fault.to_us && op.answered_us < raised_us;
    let granted = history.ops.iter().filter(between).filter(|op| op.grant().is_some()).count();
    let violations = check::safety(history);
    let first = violations.first().map_or_else(
        || "no harm done this time".to_owned(),
        |violation| format!("{} breaches of the contract, such as {violation}", violations.len()),
    );
    let refused = match granted {
        0 => "commits were refused until the epoch was raised".to_owned(),
        count => format!("{count} grants before the epoch was raised"),
    };
    vec![refused, first]
}

fn keep(entries: &[Entry], path: &Path) -> Result<()> {
    let lines: Vec<_> = entries.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(std::fs::write(path, lines.join("\n") + "\n")?)
}

fn saw_a_wrong_clock(entries: &[Entry]) -> bool {
    let right_ms = |at_us: u64| {
        let booted = wall().saturating_sub(boottime());
        u64::try_from(booted.as_millis()).unwrap_or(0) + at_us / 1_000
    };
    let hour_ms = 3_600_000;
    entries.iter().any(|entry| match entry.what {
        What::Clock { wall_ms } => right_ms(entry.at_us).abs_diff(wall_ms) > hour_ms / 2,
        _ => false,
    })
}

/// Whether a fault that keeps clients from the store did so: a cell in which nothing was broken proves nothing.
fn was_felt(fault: Fault, history: &History, stopped_us: u64, lasts: Duration, near: &[u32]) -> bool {
    match fault {
        Fault::ServerKill | Fault::ServerStop | Fault::FullDisk => {
            u128::from(Counts::of(history, stopped_us).unserved_ms) >= lasts.as_millis() / 2
        }
        Fault::CutBoth | Fault::CutToServer | Fault::CutToClient => {
            // The span covers breaking and mending it.
            let step_us = u64::try_from(STEP.as_micros()).unwrap_or(0);
            let (from_us, to_us) = (history.fault.from_us + step_us, history.fault.to_us - step_us);
            let mut served = history.ops.iter().filter(|op| near.contains(&op.client) && op.hold().is_some());
            !served.any(|op| op.asked_us > from_us && op.answered_us < to_us)
        }
        _ => true,
    }
}

fn complaint(seen: &str) -> Violation {
    Violation { of: "cell", key: "all".to_owned(), seen: seen.to_owned() }
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
