//! From starting `bell up` to the word that it is ready.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bell_coord::Coord;
use serde::Serialize;

use super::fleet::{Project, Up, agent};
use super::queue::{self, Cost};
use crate::bench::{Bench, Pace};
use crate::figures::{Spread, ns};
use crate::table::{Table, number, whole};

const TIMES: usize = 20;

/// How long a start takes.
#[derive(Serialize)]
pub(crate) struct StartUp {
    pub(crate) agents: usize,
    history_rows: usize,
    pub(crate) took: Spread,
}

/// Starts of a small project, of a large one, and of a large one with a long past. The past is that of a queue that
/// was measured and then cleared.
pub(super) fn measure(bench: &Bench, program: &Path) -> Result<(Vec<StartUp>, Vec<Cost>)> {
    let small = Project::make(bench, 10, &["true"])?;
    let large = Project::make(bench, 1_000, &["true"])?;
    let mut all = vec![starts(bench, program, &small, 10, 0)?, starts(bench, program, &large, 1_000, 0)?];
    let store = large.store()?;
    let costs = queue::measure(bench, Arc::clone(&store) as _)?;
    bench.tell("scheduler: clearing the queue");
    let cleared =
        bench.runtime.block_on(async { Coord::new(store).clear(&agent(0)?).await.context("clear") })?;
    all.push(starts(bench, program, &large, 1_000, cleared.len())?);
    Ok((all, costs))
}

fn starts(
    bench: &Bench,
    program: &Path,
    project: &Project,
    agents: usize,
    history_rows: usize,
) -> Result<StartUp> {
    bench.tell(&format!("scheduler: starts with {agents} agents"));
    let times = if bench.pace == Pace::Thorough { TIMES } else { TIMES / 2 };
    let mut took = Vec::new();
    for _ in 0..times {
        let up = Up::start(program, project)?;
        took.push(ns(up.took));
        up.stop()?;
    }
    Ok(StartUp { agents, history_rows, took: Spread::of(took).context("nothing was measured")? })
}

pub(super) fn table(all: &[StartUp]) -> Table {
    let columns = ["agents", "rows of history", "starts", "p50 ms", "max ms"];
    let mut table = Table::new("Start of `bell up` to ready", &columns);
    for one in all {
        table.row(vec![
            whole(one.agents),
            whole(one.history_rows),
            one.took.samples.to_string(),
            number(one.took.p50_us / 1_000.0),
            number(one.took.max_us / 1_000.0),
        ]);
    }
    table
}
