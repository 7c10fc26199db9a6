//! Hand-over: from the moment a key is given back to the moment the next who waits has it.
//!
//! In each round everybody waits for one key, which then goes from hand to hand until nobody waits any more.
//! Each keeps it for a moment, as whoever takes a lock does; and they come to wait at random moments. If all of
//! them came at once, or gave it back at once, those who poll would pass it on in the order of their tries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bell_locks::Key;
use bell_store::clock::boottime;
use serde::Serialize;

use crate::bench::{Bench, Pace};
use crate::figures::{Spread, ns};
use crate::stores;
use crate::table::{Table, number};

use super::contender::{Contender, Doors, Engine, How};
use super::hand::{AnyHand, POLL_EVERY};

/// Turns in all rounds together.
const TURNS: usize = 512;

/// How long each keeps the key.
const HOLD: Duration = Duration::from_millis(5);

/// After the last one has come to wait: those who don't queue have tried by then.
const SETTLE: Duration = Duration::from_millis(100);

/// For those who queue to be in the queue.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long hand-overs of one contender took.
#[derive(Serialize)]
pub(crate) struct Passing {
    pub(super) contender: Contender,
    pub(super) waiters: usize,
    pub(super) latency: Spread,
}

pub(super) fn measure(bench: &Bench, doors: Doors, engine: Engine) -> Result<Vec<Passing>> {
    let mut all = Vec::new();
    for &waiters in waiters(bench.pace) {
        bench.tell(&format!("hand-over: {}, {waiters} waiters", engine.as_str()));
        all.extend(pass(bench, doors, engine, waiters)?);
    }
    Ok(all)
}

fn waiters(pace: Pace) -> &'static [usize] {
    match pace {
        Pace::Thorough | Pace::Quick => &[16, 64],
        Pace::Smoke => &[4],
    }
}

/// One way to wait for each engine is enough: recipes without a fence wait as those with one.
fn waits(contender: &Contender) -> bool {
    !matches!(contender.how, How::SetNx | How::SetNxFencedPiped | How::CreatedKey)
}

fn pass(bench: &Bench, doors: Doors, engine: Engine, waiters: usize) -> Result<Vec<Passing>> {
    let rounds = bench.times(TURNS).div_ceil(waiters).max(2);
    let contenders = engine.contenders().into_iter().filter(waits);
    let mut lanes: Vec<_> = contenders.map(|contender| (contender, Vec::new())).collect();
    for round in 0..rounds {
        for (contender, steps_ns) in &mut lanes {
            let key = stores::key("passing", round)?;
            steps_ns.extend(bench.runtime.block_on(one_round(*contender, doors, waiters, key))?);
        }
    }
    let passing =
        |(contender, steps_ns)| Some(Passing { contender, waiters, latency: Spread::of(steps_ns)? });
    Ok(lanes.into_iter().filter_map(passing).collect())
}

/// When somebody had the key.
#[derive(Clone, Copy)]
struct Turn {
    taken: Duration,
    given_back: Duration,
}

async fn one_round(contender: Contender, doors: Doors, waiters: usize, key: Key) -> Result<Vec<u64>> {
    let mut hands = contender.hands(&doors, waiters + 1).await?;
    for (number, hand) in hands.iter_mut().enumerate() {
        hand.take(&stores::key("warm", number)?).await?;
        hand.give_back().await?;
    }
    let mut first = hands.pop().context("no hand")?;
    first.take(&key).await?;
    let is_taken = Arc::new(AtomicBool::new(true));
    let mut waiting = Vec::new();
    for hand in hands {
        let arrival = POLL_EVERY.mul_f64(f64::from(getrandom::u32()?) / f64::from(u32::MAX));
        waiting.push(tokio::spawn(wait(hand, key.clone(), arrival, Arc::clone(&is_taken))));
    }
    tokio::time::sleep(POLL_EVERY + SETTLE).await;
    let give_up = boottime() + PATIENCE;
    while first.queue(&key).await?.is_some_and(|queued| queued < waiters) {
        ensure!(boottime() < give_up, "not everybody came to wait for {key}");
        tokio::time::sleep(SETTLE).await;
    }
    let now = boottime();
    is_taken.store(false, Ordering::SeqCst);
    first.give_back().await?;
    let mut turns = vec![Turn { taken: now, given_back: now }];
    let mut hands = vec![first];
    for waiter in waiting {
        let (hand, turn) = waiter.await??;
        turns.push(turn);
        hands.push(hand);
    }
    for hand in hands {
        hand.leave().await?;
    }
    Ok(steps_ns(turns))
}

async fn wait(
    mut hand: AnyHand,
    key: Key,
    arrival: Duration,
    is_taken: Arc<AtomicBool>,
) -> Result<(AnyHand, Turn)> {
    tokio::time::sleep(arrival).await;
    hand.take(&key).await?;
    let taken = boottime();
    ensure!(!is_taken.swap(true, Ordering::SeqCst), "two have {key}");
    tokio::time::sleep(HOLD).await;
    is_taken.store(false, Ordering::SeqCst);
    let given_back = boottime();
    hand.give_back().await?;
    Ok((hand, Turn { taken, given_back }))
}

fn steps_ns(mut turns: Vec<Turn>) -> Vec<u64> {
    turns.sort_by_key(|turn| turn.taken);
    turns.windows(2).map(|pair| ns(pair[1].taken.saturating_sub(pair[0].given_back))).collect()
}

/// How one contender did with so many waiters.
pub(super) fn find(passings: &[Passing], contender: Contender, waiters: usize) -> Option<&Passing> {
    passings.iter().find(|one| one.contender == contender && one.waiters == waiters)
}

pub(super) fn table(passings: &[Passing]) -> Table {
    let columns = ["hand-over", "waiters", "hand-overs", "p50 ms", "p99 ms", "max ms"];
    let mut table = Table::new("Hand-over beside the engines' own recipes", &columns);
    for one in passings {
        let Contender { engine, how } = one.contender;
        let polls = if how.polls() { ", polling" } else { "" };
        table.row(vec![
            format!("{}: {}{polls}", engine.as_str(), how.as_str()),
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

    #[test]
    fn a_step_is_from_giving_back_to_the_next_taking() {
        let turn = |taken, given_back| Turn {
            taken: Duration::from_nanos(taken),
            given_back: Duration::from_nanos(given_back),
        };
        assert_eq!(steps_ns(vec![turn(20, 21), turn(5, 8), turn(30, 40)]), [12, 9]);
    }
}
