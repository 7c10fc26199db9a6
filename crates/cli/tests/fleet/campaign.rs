//! A daemon that is killed at random instants under load loses nothing and runs nothing twice in silence; and a store
//! that forgets is found out.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bell_core::work::row::What;

use crate::fleet::kill;
use crate::ledger::Ledger;
use crate::support::{Place, eventually};

/// Kills of the daemon in a row.
const KILLS: u64 = 100;
/// Every so many kills a supervisor is killed too.
const SUPERVISOR_EVERY: u64 = 10;
/// The longest that a daemon lives, and the longest pause of those who ask for runs.
const LIFE_MS: u64 = 300;
const PAUSE_MS: u64 = 250;

/// Numbers that look random and follow from a seed. (xorshift64*)
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

/// A seed of its own for each campaign, or the one that `BELL_SEED` names. The kernel has its own dice, so a seed
/// brings back the instants of the kills and not everything that happened.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("BELL_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("BELL_SEED={seed}");
    seed | 1
}

/// A project whose one agent notes that it began, in which run, and beside which supervisor.
fn project() -> Place {
    let place = Place::sqlite();
    let script = "echo \"$BELL_JOB $BELL_RUN $PPID\" >> begun; sleep 0.1";
    let retry = "retry = { attempts = 3, on = [\"lost\"], backoff = \"100ms\" }";
    place.agent("worker", script, &format!("scale = 4\nwork_queue_size = 10000\n{retry}\n"));
    place
}

pub(crate) fn ledger(place: &Place, accepted: Vec<String>) -> Ledger {
    let begun = place.lines("begun").into_iter().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    });
    let told = place.history().into_iter().filter_map(|event| match (event.job, event.what) {
        (Some(job), What::RunEnded { run, end, .. }) => {
            let end = serde_json::to_value(end).unwrap()["end"].as_str().unwrap().to_owned();
            Some((job.to_string(), run.to_string(), end))
        }
        _ => None,
    });
    Ledger { accepted, begun: begun.collect(), told: told.collect() }
}

pub(crate) fn until_idle(place: &Place) {
    eventually("everything is done", || place.is_idle());
}

#[test]
fn a_daemon_that_is_killed_at_random_instants_loses_nothing_and_runs_nothing_twice_in_silence() {
    let place = project();
    let seed = seed();
    let (accepted, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let ask_all_the_time = |seed: u64| {
        let mut dice = Dice(seed);
        while !is_over.load(Ordering::Relaxed) {
            let job = place.ask("worker");
            accepted.lock().unwrap().push(job);
            std::thread::sleep(Duration::from_millis(dice.below(PAUSE_MS)));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| ask_all_the_time(seed ^ 0xA5A5));
        let mut dice = Dice(seed);
        for round in 1..=KILLS {
            let daemon = place.start(&["up"]);
            std::thread::sleep(Duration::from_millis(dice.below(LIFE_MS)));
            daemon.kill();
            let begun = place.lines("begun");
            if round % SUPERVISOR_EVERY == 0 && !begun.is_empty() {
                // One that has ended meanwhile can't be killed; any other may be.
                let recent = &begun[begun.len().saturating_sub(3)..];
                kill_supervisor(&place, &recent[usize::try_from(dice.below(recent.len() as u64)).unwrap()]);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let daemon = place.up();
    until_idle(&place);
    let ledger = ledger(&place, accepted.into_inner().unwrap());
    assert!(ledger.accepted.len() > 50, "there was some load: {}", ledger.accepted.len());
    assert_eq!(ledger.faults(), Vec::<String>::new(), "BELL_SEED={seed}");
    daemon.stop();
}

/// Kills the supervisor of the run in this line, if it is still there and has not become another process.
fn kill_supervisor(place: &Place, line: &str) {
    let [_, run, pid] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let is_it = |text: String| text.contains("__supervise") && text.contains(run);
    if fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(is_it) {
        kill(pid);
        eventually("nothing of it is left", || !place.lines("begun").is_empty());
    }
}

/// Puts the store back to how it was, as a backup that is restored would, or a disk that did not write.
fn put_back(place: &Place, copy: &[u8]) {
    for beside in ["bell.db-wal", "bell.db-shm"] {
        let _ = fs::remove_file(place.path(beside));
    }
    fs::write(place.path("bell.db"), copy).unwrap();
}

#[test]
fn control_jobs_that_a_store_forgets_are_found_to_be_lost() {
    let place = project();
    let mut accepted: Vec<String> = (0..3).map(|_| place.ask("worker")).collect();
    let copy = fs::read(place.path("bell.db")).unwrap();
    let forgotten: Vec<String> = (0..2).map(|_| place.ask("worker")).collect();
    accepted.extend(forgotten.clone());
    put_back(&place, &copy);
    let daemon = place.up();
    until_idle(&place);
    daemon.stop();
    let expected: Vec<String> =
        forgotten.iter().map(|job| format!("{job} was accepted and never run")).collect();
    assert_eq!(ledger(&place, accepted).faults(), expected);
}

#[test]
fn control_runs_that_a_store_forgets_are_found_to_be_silent_doubles() {
    let place = project();
    let job = place.ask("worker");
    let copy = fs::read(place.path("bell.db")).unwrap();
    for _ in 0..2 {
        let daemon = place.up();
        until_idle(&place);
        daemon.stop();
        put_back_unless_last(&place, &copy);
    }
    let faults = ledger(&place, vec![job]).faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("history does not tell of it"), "{faults:?}");
}

/// The first time it is put back, the second time it stays: the job ran twice, and history tells of one.
fn put_back_unless_last(place: &Place, copy: &[u8]) {
    if place.lines("begun").len() == 1 {
        put_back(place, copy);
        // What tells the next daemon that the store is an older one.
        fs::remove_file(place.path(".bell/stores.json")).unwrap();
    }
}
