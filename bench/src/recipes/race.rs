//! Pairs of acquire and release per second, everybody on the same server in turns.
//!
//! Each hand has a key of its own. Rounds are interleaved and their order is reversed every time, so that a
//! minute in which the machine is busy meets everybody; shares are taken round by round.

use std::time::Duration;

use anyhow::Result;
use bell_locks::Key;
use bell_store::clock::boottime;
use serde::Serialize;

use crate::bench::{Bench, Pace};
use crate::figures::{Share, Spread, median, ns, per_second};
use crate::stores;
use crate::table::{Table, number};

use super::contender::{Contender, Doors, Engine, How};
use super::cost::Cost;
use super::hand::AnyHand;

/// What one contender did.
#[derive(Serialize)]
pub(crate) struct Race {
    pub(super) contender: Contender,
    pub(super) sessions: usize,
    /// In each round.
    per_second: Vec<f64>,
    latency: Spread,
    cost: Cost,
}

pub(super) fn measure(bench: &Bench, doors: Doors, engine: Engine) -> Result<Vec<Race>> {
    let mut all = Vec::new();
    for &sessions in sessions(bench.pace) {
        bench.tell(&format!("pairs: {}, {sessions} sessions", engine.as_str()));
        all.extend(race(bench, doors, engine, sessions)?);
    }
    Ok(all)
}

fn sessions(pace: Pace) -> &'static [usize] {
    match pace {
        Pace::Thorough | Pace::Quick => &[1, 16, 64],
        Pace::Smoke => &[2],
    }
}

fn race(bench: &Bench, doors: Doors, engine: Engine, sessions: usize) -> Result<Vec<Race>> {
    let (rounds, span) = match bench.pace {
        Pace::Thorough => (7, Duration::from_secs(1)),
        Pace::Quick => (3, Duration::from_millis(300)),
        Pace::Smoke => (1, Duration::from_millis(20)),
    };
    let mut lanes: Vec<_> =
        engine.contenders().into_iter().map(|contender| (contender, Lane::default())).collect();
    for _ in 0..rounds {
        lanes.reverse();
        for (contender, lane) in &mut lanes {
            bench.runtime.block_on(run(*contender, doors, sessions, span, lane))?;
        }
    }
    if rounds % 2 == 1 {
        lanes.reverse();
    }
    let race = |(contender, Lane { per_second, latencies_ns, cost })| {
        Some(Race { contender, sessions, per_second, latency: Spread::of(latencies_ns)?, cost })
    };
    Ok(lanes.into_iter().filter_map(race).collect())
}

/// What one contender has done so far.
#[derive(Default)]
struct Lane {
    per_second: Vec<f64>,
    latencies_ns: Vec<u64>,
    cost: Cost,
}

/// One round of one contender.
async fn run(
    contender: Contender,
    doors: Doors,
    sessions: usize,
    span: Duration,
    lane: &mut Lane,
) -> Result<()> {
    let mut hands = contender.hands(&doors, sessions).await?;
    for (number, hand) in hands.iter_mut().enumerate() {
        // The first request of a session stores the session too.
        hand.take(&key(number)?).await?;
        hand.give_back().await?;
    }
    // Counting looks through all processes, which is not to be a part of the race.
    let cost = Cost::so_far();
    let begun = boottime();
    let mut tasks = Vec::new();
    for (number, hand) in hands.into_iter().enumerate() {
        tasks.push(tokio::spawn(repeat(hand, key(number)?, begun + span)));
    }
    let (mut pairs, mut hands) = (0, Vec::new());
    for task in tasks {
        let (hand, own_ns) = task.await??;
        pairs += own_ns.len();
        lane.latencies_ns.extend(own_ns);
        hands.push(hand);
    }
    lane.per_second.push(per_second(pairs, boottime() - begun));
    lane.cost = lane.cost.and(Cost::so_far().since(cost));
    for hand in hands {
        hand.leave().await?;
    }
    Ok(())
}

fn key(number: usize) -> Result<Key> {
    stores::key("recipes", number)
}

async fn repeat(mut hand: AnyHand, key: Key, until: Duration) -> Result<(AnyHand, Vec<u64>)> {
    let mut latencies_ns = Vec::new();
    let mut begun = boottime();
    while begun < until {
        hand.take(&key).await?;
        hand.give_back().await?;
        let ended = boottime();
        latencies_ns.push(ns(ended - begun));
        begun = ended;
    }
    Ok((hand, latencies_ns))
}

/// Our pairs per second as a share of another's, round by round.
pub(super) fn share(races: &[Race], engine: Engine, sessions: usize, of: How) -> Option<Share> {
    let find = |how| {
        let is_meant =
            |race: &&Race| race.contender == Contender { engine, how } && race.sessions == sessions;
        races.iter().find(is_meant)
    };
    let (ours, other) = (find(How::Ours)?, find(of)?);
    Share::of(ours.per_second.iter().zip(&other.per_second).map(|(ours, other)| ours / other).collect())
}

/// How many sessions there were in any race.
pub(super) fn sessions_of(races: &[Race]) -> Vec<usize> {
    let mut all: Vec<_> = races.iter().map(|race| race.sessions).collect();
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) fn table(races: &[Race]) -> Table {
    let columns = [
        "pairs",
        "sessions",
        "pairs/s",
        "slowest round",
        "fastest round",
        "p50 µs",
        "p99 µs",
        "client CPU µs",
        "server CPU µs",
        "ours : theirs",
    ];
    let mut table = Table::new("Acquire and release beside the engines' own recipes", &columns);
    for race in races {
        let Contender { engine, how } = race.contender;
        let slowest = race.per_second.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = race.per_second.iter().copied().fold(0.0, f64::max);
        let share = share(races, engine, race.sessions, how).filter(|_| !how.is_ours());
        let [client_us, server_us] = race.cost.each_us(race.latency.samples);
        table.row(vec![
            format!("{}: {}", engine.as_str(), how.as_str()),
            race.sessions.to_string(),
            number(median(&race.per_second).unwrap_or_default()),
            number(slowest),
            number(fastest),
            number(race.latency.p50_us),
            number(race.latency.p99_us),
            number(client_us),
            number(server_us),
            share.map_or_else(|| "–".to_owned(), |share| share.to_string()),
        ]);
    }
    table.note("Medians of the rounds. A share is the median of those of the rounds, with the least and the largest.");
    table
}
