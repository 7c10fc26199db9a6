//! What a job costs while many others wait, and while many are remembered.
//!
//! Requests and records are counted, so they are the same on every machine; times are those of one caller on SQLite,
//! with its disk.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use bell_coord::Coord;
use bell_coord::work::running::{Claim, Work};
use bell_core::work::agent::AgentName;
use bell_core::work::line::Caps;
use bell_core::work::run::End;
use bell_store::Store;
use bell_store::clock::boottime;
use bell_store::layers::{Metered, Metrics, Op};
use serde::Serialize;

use super::fleet::{ROOM, agent, offer};
use crate::bench::{Bench, Pace};
use crate::figures::median;
use crate::table::{Table, number, whole};

const DEPTHS: [usize; 3] = [0, 1_000, 100_000];
const TIMES: usize = 200;
const CAPS: Caps = Caps { agent: 1_000, fleet: None };
/// Offers handed in together while a queue is filled.
const FILL: usize = 1_000;

/// One act at one depth.
#[derive(Serialize)]
pub(crate) struct Cost {
    pub(crate) act: &'static str,
    pub(crate) depth: usize,
    /// The median.
    us: f64,
    pub(crate) commits: f64,
    pub(crate) reads: f64,
    pub(crate) scans: f64,
    pub(crate) records: f64,
}

/// Fills the queue of one agent to each depth and measures there. Leaves the deepest one.
pub(super) fn measure(bench: &Bench, store: Arc<dyn Store>) -> Result<Vec<Cost>> {
    let metered = Metered::new(store);
    let metrics = metered.metrics();
    let scene = Scene { coord: Coord::new(Arc::new(metered)), metrics, agent: agent(0)? };
    let mut costs = Vec::new();
    for depth in DEPTHS {
        let depth = if bench.pace == Pace::Smoke { depth / 100 } else { depth };
        bench.tell(&format!("scheduler: a job while {depth} wait"));
        bench.runtime.block_on(scene.fill(depth))?;
        costs.extend(bench.runtime.block_on(scene.measure(depth, bench.times(TIMES).max(20)))?);
    }
    Ok(costs)
}

struct Scene {
    coord: Coord,
    metrics: Arc<Metrics>,
    agent: AgentName,
}

impl Scene {
    async fn fill(&self, depth: usize) -> Result<()> {
        let mut missing = depth.saturating_sub(self.coord.line(&self.agent).await?.waiting as usize);
        while missing > 0 {
            let offers: Vec<_> = (0..missing.min(FILL)).map(|_| offer(&self.agent)).collect();
            missing -= offers.len();
            self.coord.accept(&offers, ROOM).await?;
        }
        Ok(())
    }

    async fn measure(&self, depth: usize, times: usize) -> Result<Vec<Cost>> {
        let mut acts = [Act::new("offer"), Act::new("claim"), Act::new("begin"), Act::new("finish")];
        for _ in 0..times {
            let [offered, claimed, begun, finished] = &mut acts;
            let offer = offer(&self.agent);
            offered.time(&self.metrics, self.coord.accept(&[offer], ROOM)).await?;
            let claim = claimed.time(&self.metrics, self.claim()).await?;
            begun.time(&self.metrics, self.coord.begin(&claim.run, None)).await?;
            finished.time(&self.metrics, self.coord.finish(&claim.run, &End::Completed)).await?;
        }
        acts.iter().map(|act| act.cost(depth)).collect()
    }

    async fn claim(&self) -> Result<Claim> {
        match self.coord.claim(&self.agent, CAPS, "here").await? {
            Work::Job(claim) => Ok(*claim),
            Work::Idle | Work::Paused(_) | Work::Later(_) | Work::Locked(_) | Work::Occupied(_) => {
                bail!("a job that waits was not given away")
            }
        }
    }
}

/// What was seen of one act.
struct Act {
    name: &'static str,
    us: Vec<f64>,
    total: [u64; 4],
}

impl Act {
    fn new(name: &'static str) -> Self {
        Self { name, us: Vec::new(), total: [0; 4] }
    }

    async fn time<T, E: Into<anyhow::Error>>(
        &mut self,
        metrics: &Metrics,
        act: impl Future<Output = Result<T, E>>,
    ) -> Result<T> {
        let (before, begun) = (counts(metrics), boottime());
        let answer = act.await.map_err(Into::into)?;
        self.us.push(us(boottime() - begun));
        for ((total, after), before) in self.total.iter_mut().zip(counts(metrics)).zip(before) {
            *total += after - before;
        }
        Ok(answer)
    }

    fn cost(&self, depth: usize) -> Result<Cost> {
        let Some(us) = median(&self.us) else { bail!("nothing was measured") };
        let [commits, reads, scans, records] = self.total.map(|count| count as f64 / self.us.len() as f64);
        Ok(Cost { act: self.name, depth, us, commits, reads, scans, records })
    }
}

fn counts(metrics: &Metrics) -> [u64; 4] {
    let snapshot = metrics.snapshot();
    let of = |op: Op| snapshot.iter().find(|latency| latency.op == op).map_or(0, |latency| latency.count);
    [of(Op::Commit), of(Op::Read), of(Op::Scan), metrics.records()]
}

fn us(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

pub(super) fn table(costs: &[Cost]) -> Table {
    let columns =
        ["act", "jobs waiting", "per second", "p50 µs", "commits", "reads", "scans", "records read"];
    let mut table = Table::new("A job while others wait, one caller on SQLite", &columns);
    for cost in costs {
        let counts = [cost.commits, cost.reads, cost.scans, cost.records].map(number);
        let time = [number(1e6 / cost.us), number(cost.us)];
        let depth = whole(cost.depth);
        table.row([cost.act.to_owned(), depth].into_iter().chain(time).chain(counts).collect());
    }
    table
}
