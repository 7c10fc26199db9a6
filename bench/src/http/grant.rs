//! From just before a release is sent to when the one who waits has its answer.

use std::path::Path;

use anyhow::{Context, Result};
use bell_store::clock::boottime;
use serde::Serialize;

use super::gate::{Door, Gate, Kept, acquire, release};
use super::wire::Way;
use crate::bench::Bench;
use crate::figures::{Spread, ns};
use crate::table::{Table, number};

const ROUNDS: usize = 1_000;
const KEY: &str = "bench://handed-over/1";
const WAIT_MS: u64 = 50_000;

/// How long grants took.
#[derive(Serialize)]
pub(crate) struct Grants {
    kept: Kept,
    way: Way,
    latency: Spread,
}

pub(crate) fn measure(bench: &Bench, program: &Path) -> Result<Vec<Grants>> {
    let mut all = Vec::new();
    for kept in Kept::ALL {
        let gate = Gate::open(bench, program, kept)?;
        for way in Way::ALL {
            bench.tell(&format!("http: grants, {}, {}", kept.as_str(), way.as_str()));
            let latencies = bench.runtime.block_on(hand_over(&gate.door, way, bench.times(ROUNDS)))?;
            let latency = Spread::of(latencies).context("nothing was granted")?;
            all.push(Grants { kept, way, latency });
        }
    }
    Ok(all)
}

async fn hand_over(door: &Door, way: Way, rounds: usize) -> Result<Vec<u64>> {
    let (mut holder, mut waiter) = (door.session(way).await?, door.session(way).await?);
    // Of whoever looks whether the other waits already.
    let mut looker = door.session(way).await?;
    holder.post("/v1/locks/acquire", &acquire(KEY, 0, 0)).await?.good()?;
    let mut latencies = Vec::new();
    for round in 1..=rounds {
        waiter.send("/v1/locks/acquire", &acquire(KEY, round, WAIT_MS)).await?;
        while looker.post("/v1/locks/acquire", &acquire(KEY, 0, 0)).await?.json()?["waiting"] != 1 {
            tokio::task::yield_now().await;
        }
        let give_back = release(KEY);
        let begun = boottime();
        let (released, granted) = tokio::join!(holder.post("/v1/locks/release", &give_back), async {
            let answer = waiter.answer().await?.good().map(|_| ());
            anyhow::Ok((answer?, boottime()))
        });
        released?.good()?;
        latencies.push(ns(granted?.1 - begun));
        std::mem::swap(&mut holder, &mut waiter);
    }
    holder.post("/v1/locks/release", &release(KEY)).await?.good()?;
    Ok(latencies)
}

pub(crate) fn table(all: &[Grants]) -> Table {
    let columns = &["locks in", "way", "grants", "p50 ms", "p99 ms", "max ms"];
    let mut table = Table::new("A grant over HTTP: from release sent to the waiter's answer", columns);
    for one in all {
        table.row(vec![
            one.kept.as_str().to_owned(),
            one.way.as_str().to_owned(),
            one.latency.samples.to_string(),
            number(one.latency.p50_us / 1e3),
            number(one.latency.p99_us / 1e3),
            number(one.latency.max_us / 1e3),
        ]);
    }
    table
}
