//! From the moment a release is sent to the moment the next waiter has its answer.
//!
//! Each round has a key of its own. Somebody holds it until everybody is in the queue; then it goes from
//! hand to hand, each giving it back at once. Fences tell the order afterwards, also between processes,
//! and CLOCK_BOOTTIME is the same in all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bell_locks::locks::StoreLocks;
use bell_locks::{Ask, Keep, Key, Lease, LockBackend, Session};
use bell_store::clock::boottime;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::bench::{Bench, runtime};
use crate::figures::{Spread, ns};
use crate::stores::{self, Make};
use crate::table::{Table, number};
use crate::worker::{self, Worker};

const WAITERS: [usize; 2] = [16, 64];
/// Turns in all rounds together.
const TURNS: usize = 1_000;
/// Longer than any round takes, so that one that goes wrong ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long hand-overs took.
#[derive(Serialize)]
pub(crate) struct Handover {
    pub(crate) store: Make,
    pub(crate) waiters: usize,
    pub(crate) between: Between,
    pub(crate) latency: Spread,
}

/// Who gave the key to whom.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Between {
    /// All are in one process.
    OneProcess,
    /// Waiters are in two processes; from one to a neighbour in the same.
    SameOfTwo,
    /// From one process to the other.
    Processes,
}

/// What one process is to do: wait, and give back, in each round.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    store: Make,
    place: PathBuf,
    waiters: usize,
    rounds: usize,
}

/// One lease on the way.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Turn {
    round: usize,
    fence: u64,
    process: u32,
    answered_ns: u64,
    released_ns: u64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Handover>> {
    let mut all = Vec::new();
    for store in Make::ALL {
        for waiters in WAITERS {
            all.extend(in_one_process(bench, store, waiters)?);
        }
    }
    for store in Make::SHARED {
        for waiters in WAITERS {
            all.extend(between_processes(bench, store, waiters)?);
        }
    }
    Ok(all)
}

fn in_one_process(bench: &Bench, store: Make, waiters: usize) -> Result<Option<Handover>> {
    bench.tell(&format!("hand-over: {}, {waiters} waiters", store.as_str()));
    let rounds = bench.times(TURNS).div_ceil(waiters);
    let backend = open(store, &bench.new_place())?;
    let turns = bench.runtime.block_on(async {
        let hands = Hands::full(Arc::clone(&backend), rounds).await?;
        let (given, taken) = tokio::try_join!(hands.give_out(waiters), take_turns(backend, waiters, rounds))?;
        anyhow::Ok([given, taken].concat())
    })?;
    let latency = Spread::of(steps(turns).into_iter().map(|step| step.took_ns).collect());
    Ok(latency.map(|latency| Handover { store, waiters, between: Between::OneProcess, latency }))
}

fn between_processes(bench: &Bench, store: Make, waiters: usize) -> Result<Vec<Handover>> {
    bench.tell(&format!("hand-over: {}, {waiters} waiters in two processes", store.as_str()));
    let rounds = bench.times(TURNS).div_ceil(waiters);
    let place = bench.new_place();
    let backend = open(store, &place)?;
    let hands = bench.runtime.block_on(Hands::full(backend, rounds))?;
    let mut workers = Vec::new();
    for _ in 0..2 {
        let order = Order { store, place: place.clone(), waiters: waiters / 2, rounds };
        workers.push(Worker::start(&worker::Order::Handover(order))?);
    }
    let mut turns = bench.runtime.block_on(hands.give_out(waiters))?;
    for worker in workers {
        turns.extend(worker.result::<Vec<Turn>>()?);
    }
    let (crossing, staying): (Vec<_>, Vec<_>) = steps(turns).into_iter().partition(|step| step.crosses);
    let kinds = [(Between::Processes, crossing), (Between::SameOfTwo, staying)];
    let spread = |(between, steps): (Between, Vec<Step>)| {
        let latency = Spread::of(steps.into_iter().map(|step| step.took_ns).collect())?;
        Some(Handover { store, waiters, between, latency })
    };
    Ok(kinds.into_iter().filter_map(spread).collect())
}

fn open(store: Make, place: &Path) -> Result<Arc<dyn LockBackend>> {
    Ok(Arc::new(StoreLocks::new(store.open(place)?)))
}

fn key_of(round: usize) -> Result<Key> {
    stores::key("handover", round)
}

/// Holds the key of every round at first.
struct Hands {
    backend: Arc<dyn LockBackend>,
    session: Session,
    leases: Vec<Lease>,
}

impl Hands {
    async fn full(backend: Arc<dyn LockBackend>, rounds: usize) -> Result<Self> {
        let session = stores::session(Keep::Attended)?;
        let mut leases = Vec::new();
        for round in 0..rounds {
            leases.extend(backend.acquire(&session, &Ask::new(key_of(round)?)).await?);
        }
        Ok(Self { backend, session, leases })
    }

    /// Begins each round when everybody waits.
    async fn give_out(self, waiters: usize) -> Result<Vec<Turn>> {
        let mut turns = Vec::new();
        for (round, lease) in self.leases.iter().enumerate() {
            self.wait_for_queue(&lease.key, waiters).await?;
            let now = boottime();
            self.backend.release(&self.session, lease).await?;
            turns.push(Turn::new(round, lease, now, now));
        }
        Ok(turns)
    }

    async fn wait_for_queue(&self, key: &Key, waiters: usize) -> Result<()> {
        let give_up = boottime() + PATIENCE;
        while self.backend.show(key).await?.waiting.len() < waiters {
            ensure!(boottime() < give_up, "not everybody came to wait for {key}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The last one looks once more before it sleeps.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(())
    }
}

impl Order {
    /// In a process of its own.
    pub(crate) fn carry_out(&self) -> Result<Vec<Turn>> {
        let backend = open(self.store, &self.place)?;
        runtime()?.block_on(take_turns(backend, self.waiters, self.rounds))
    }
}

async fn take_turns(backend: Arc<dyn LockBackend>, waiters: usize, rounds: usize) -> Result<Vec<Turn>> {
    let sessions = (0..waiters).map(|_| stores::session(Keep::Attended)).collect::<Result<Vec<_>>>()?;
    let mut turns = Vec::new();
    for round in 0..rounds {
        let wait = |session: &Session| wait_for_turn(&backend, session, round);
        let waiting = sessions.iter().map(wait).collect::<Vec<JoinHandle<Result<Turn>>>>();
        for turn in waiting {
            turns.push(turn.await??);
        }
    }
    for session in &sessions {
        backend.end_session(session).await?;
    }
    Ok(turns)
}

fn wait_for_turn(
    backend: &Arc<dyn LockBackend>,
    session: &Session,
    round: usize,
) -> JoinHandle<Result<Turn>> {
    let (backend, session) = (Arc::clone(backend), session.clone());
    tokio::spawn(async move {
        let leases = backend.acquire(&session, &Ask::new(key_of(round)?).wait(PATIENCE)).await?;
        let answered = boottime();
        ensure!(leases.len() == 1, "a request for one key was answered with {}", leases.len());
        let released = boottime();
        backend.release(&session, &leases[0]).await?;
        Ok(Turn::new(round, &leases[0], answered, released))
    })
}

impl Turn {
    fn new(round: usize, lease: &Lease, answered: Duration, released: Duration) -> Self {
        let process = std::process::id();
        Self { round, fence: lease.fence.0, process, answered_ns: ns(answered), released_ns: ns(released) }
    }
}

/// From one to the next.
struct Step {
    crosses: bool,
    took_ns: u64,
}

fn steps(mut turns: Vec<Turn>) -> Vec<Step> {
    turns.sort_by_key(|turn| (turn.round, turn.fence));
    let same_round = |pair: &&[Turn]| pair[0].round == pair[1].round;
    let step = |pair: &[Turn]| Step {
        crosses: pair[0].process != pair[1].process,
        took_ns: pair[1].answered_ns.saturating_sub(pair[0].released_ns),
    };
    turns.windows(2).filter(same_round).map(step).collect()
}

pub(crate) fn table(handovers: &[Handover]) -> Table {
    let columns = ["store", "waiters", "hand-overs", "p50 ms", "p99 ms", "max ms"];
    let mut table = Table::new("Hand-over: from release sent to next answered", &columns);
    for one in handovers {
        let between = match one.between {
            Between::OneProcess => "one process",
            Between::SameOfTwo => "two processes, to a neighbour in the same",
            Between::Processes => "two processes, to the other",
        };
        table.row(vec![
            format!("{}, {between}", one.store.as_str()),
            one.waiters.to_string(),
            one.latency.samples.to_string(),
            number(one.latency.p50_us / 1_000.0),
            number(one.latency.p99_us / 1_000.0),
            number(one.latency.max_us / 1_000.0),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(round: usize, fence: u64, process: u32, answered_ns: u64, released_ns: u64) -> Turn {
        Turn { round, fence, process, answered_ns, released_ns }
    }

    #[test]
    fn a_step_is_from_a_release_to_the_next_answer_of_the_same_round() {
        let turns =
            vec![turn(1, 9, 7, 50, 50), turn(0, 3, 8, 27, 30), turn(0, 1, 7, 10, 12), turn(0, 4, 8, 33, 35)];
        let steps: Vec<_> = steps(turns).into_iter().map(|step| (step.crosses, step.took_ns)).collect();
        assert_eq!(steps, [(true, 15), (false, 3)]);
    }
}
