//! Round trips and bytes of one acquire and one release, counted on the wire.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::bench::Bench;
use crate::stores;
use crate::table::{Table, number};

use super::contender::{Contender, Doors, Engine};
use super::wire::{Passed, Wire};

/// Pairs that are counted: enough for what happens once in a while to vanish, few enough to be quick.
const PAIRS: usize = 500;

/// Fewer would let a heartbeat look like a round trip of each.
const FEWEST_PAIRS: usize = 20;

/// What one pair takes, on average.
#[derive(Debug, Serialize)]
pub(crate) struct Trips {
    pub(super) contender: Contender,
    pub(super) acquire: f64,
    pub(super) release: f64,
    bytes_sent: f64,
    bytes_received: f64,
}

impl Trips {
    pub(super) fn pair(&self) -> f64 {
        self.acquire + self.release
    }
}

pub(super) fn measure(bench: &Bench, doors: Doors, engine: Engine) -> Result<Vec<Trips>> {
    bench.tell(&format!("round trips: {}", engine.as_str()));
    let mut all = Vec::new();
    for contender in engine.contenders() {
        all.push(bench.runtime.block_on(count(contender, doors, bench.times(PAIRS).max(FEWEST_PAIRS)))?);
    }
    Ok(all)
}

async fn count(contender: Contender, doors: Doors, pairs: usize) -> Result<Trips> {
    let engine = contender.engine;
    let wire = Wire::before(engine, doors.port(engine)).await?;
    let hands = contender.hands(&doors.through(engine, wire.port), 1).await?;
    let mut hand = hands.into_iter().next().context("no hand")?;
    let key = stores::key("trips", 0)?;
    // The first request of a session stores the session too.
    hand.take(&key).await?;
    hand.give_back().await?;
    let (mut acquired, mut released) = (Passed::default(), Passed::default());
    for _ in 0..pairs {
        let before = wire.passed();
        hand.take(&key).await?;
        let between = wire.passed();
        hand.give_back().await?;
        acquired = acquired.and(between.since(before));
        released = released.and(wire.passed().since(between));
    }
    hand.leave().await?;
    let (each, both) = (|count: u64| count as f64 / pairs as f64, acquired.and(released));
    Ok(Trips {
        contender,
        acquire: each(acquired.trips),
        release: each(released.trips),
        bytes_sent: each(both.sent),
        bytes_received: each(both.received),
    })
}

pub(super) fn table(trips: &[Trips]) -> Table {
    let columns =
        ["round trips", "acquire", "release", "pair", "bytes sent per pair", "bytes received per pair"];
    let mut table = Table::new("Round trips, counted on the wire", &columns);
    for one in trips {
        let figures = [one.acquire, one.release, one.pair(), one.bytes_sent, one.bytes_received];
        let name = format!("{}: {}", one.contender.engine.as_str(), one.contender.how.as_str());
        table.row([name].into_iter().chain(figures.map(number)).collect());
    }
    table
}
