//! Acquire and release over HTTP, as many times a second as clients with keys of their own can.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bell_store::clock::boottime;
use serde::Serialize;
use tokio::task::JoinSet;

use super::empty::Empty;
use super::gate::{Gate, Kept, acquire, release};
use super::wire::{Connection, Way};
use crate::bench::Bench;
use crate::figures::{Spread, ns, per_second};
use crate::scheduler::fleet::cpu_seconds;
use crate::table::{Table, number, number_or_dash};

const CLIENTS: [usize; 3] = [1, 16, 64];

/// How many requests were answered.
#[derive(Serialize)]
pub(crate) struct Pairs {
    /// `None`: by the empty handler.
    kept: Option<Kept>,
    way: Way,
    clients: usize,
    requests_per_second: f64,
    /// Of a pair; of one request to the empty handler.
    latency: Option<Spread>,
    /// Processor time of the server alone, for each request.
    server_us: f64,
}

pub(crate) fn measure(bench: &Bench, program: &Path) -> Result<Vec<Pairs>> {
    let mut all = Vec::new();
    let empty = Empty::start(bench)?;
    let gates = Kept::ALL.map(|kept| Gate::open(bench, program, kept).map(|gate| (kept, gate)));
    let gates = gates.into_iter().collect::<Result<Vec<_>>>()?;
    for way in Way::ALL {
        for clients in CLIENTS {
            bench.tell(&format!("http: an empty handler, {}, {clients} clients", way.as_str()));
            all.push(bench.runtime.block_on(nothing(bench, &empty, way, clients))?);
            for (kept, gate) in &gates {
                bench.tell(&format!("http: pairs, {}, {}, {clients} clients", kept.as_str(), way.as_str()));
                all.push(bench.runtime.block_on(pairs(bench, *kept, gate, way, clients))?);
            }
        }
    }
    Ok(all)
}

/// Of the requests that an empty handler answers at 64 clients, how many are answered about locks.
pub(crate) fn share(all: &[Pairs], kept: Kept, way: Way) -> Option<f64> {
    let find =
        |kept: Option<Kept>| all.iter().find(|one| one.kept == kept && one.way == way && one.clients == 64);
    Some(find(Some(kept))?.requests_per_second / find(None)?.requests_per_second)
}

async fn nothing(bench: &Bench, empty: &Empty, way: Way, clients: usize) -> Result<Pairs> {
    let mut asking = Vec::new();
    for _ in 0..clients {
        asking.push(Connection::open(&empty.place, way, &"x".repeat(100)).await?);
    }
    let before = cpu_seconds(empty.pid())?;
    let (latencies, span) = repeat(bench, asking, |connection, number| async move {
        let mut connection = connection;
        connection.post("/v1/locks/acquire", &acquire("bench://key/1", number, 0)).await?.good()?;
        Ok(connection)
    })
    .await?;
    let server_us = (cpu_seconds(empty.pid())? - before) * 1e6 / latencies.len().max(1) as f64;
    let requests_per_second = per_second(latencies.len(), span);
    Ok(Pairs { kept: None, way, clients, requests_per_second, latency: Spread::of(latencies), server_us })
}

async fn pairs(bench: &Bench, kept: Kept, gate: &Gate, way: Way, clients: usize) -> Result<Pairs> {
    let mut asking = Vec::new();
    for number in 0..clients {
        asking.push((
            gate.door.session(way).await?,
            format!("bench://{}-{clients}/{number}", way.as_str().replace(' ', "-")),
        ));
    }
    let before = cpu_seconds(gate.pid())?;
    let (latencies, span) = repeat(bench, asking, |(connection, key), number| async move {
        let mut connection = connection;
        connection.post("/v1/locks/acquire", &acquire(&key, number, 0)).await?.good()?;
        connection.post("/v1/locks/release", &release(&key)).await?.good()?;
        Ok((connection, key))
    })
    .await?;
    let requests = 2 * latencies.len();
    let server_us = (cpu_seconds(gate.pid())? - before) * 1e6 / requests.max(1) as f64;
    let requests_per_second = per_second(requests, span);
    Ok(Pairs {
        kept: Some(kept),
        way,
        clients,
        requests_per_second,
        latency: Spread::of(latencies),
        server_us,
    })
}

/// Repeats something for each client until the time is up. Answers how long each time took, and all together.
async fn repeat<C, F>(
    bench: &Bench,
    clients: Vec<C>,
    once: impl Fn(C, usize) -> F + Clone + Send + 'static,
) -> Result<(Vec<u64>, Duration)>
where
    C: Send + 'static,
    F: Future<Output = Result<C>> + Send,
{
    let begun = boottime();
    let until = begun + bench.span();
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let once = once.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut last = boottime();
            while last < until {
                client = once(client, latencies.len()).await?;
                let now = boottime();
                latencies.push(ns(now - last));
                last = now;
            }
            anyhow::Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    Ok((all, boottime() - begun))
}

pub(crate) fn table(all: &[Pairs]) -> Table {
    let columns =
        &["locks in", "way", "clients", "requests/s", "pairs/s", "p50 µs", "p99 µs", "server CPU µs/request"];
    let mut table = Table::new("Locks over HTTP, connections that stay open", columns);
    for one in all {
        let pairs = one.kept.map(|_| one.requests_per_second / 2.0);
        table.row(vec![
            one.kept.map_or("– (empty handler)", Kept::as_str).to_owned(),
            one.way.as_str().to_owned(),
            one.clients.to_string(),
            number(one.requests_per_second),
            number_or_dash(pairs),
            number_or_dash(one.latency.map(|latency| latency.p50_us)),
            number_or_dash(one.latency.map(|latency| latency.p99_us)),
            number(one.server_us),
        ]);
    }
    table.note("Times are those of a pair; of one request to the empty handler.");
    table
}
