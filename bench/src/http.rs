//! Locks over HTTP: the real daemon, asked by clients whose connections stay open.
//!
//! The clients are part of this process and use the same processors as the daemon. Beside it stands an empty handler that
//! the same code serves, asked in the same way.
//!
//! | module | what is measured, or what for |
//! | --- | --- |
//! | `pairs` | acquire and release, per second |
//! | `grant` | from a release to the answer of the one who waits |
//! | `memory` | what a connection that is idle, and a session that waits, take |
//! | `gate` | a server to ask: the daemon, or with locks in memory its server alone |
//! | `served` | that server alone |
//! | `empty` | a handler that does nothing |
//! | `wire` | one connection: requests and answers, without a library in the way |

pub(crate) mod empty;
mod gate;
mod grant;
mod memory;
mod pairs;
pub(crate) mod served;
mod wire;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::bench::Bench;
use crate::scheduler::program_or_beside;
use crate::table::{Table, number};
use crate::targets::Target;

/// What locks over HTTP are to reach beside an empty handler, at 64 clients.
const SHARE_MEMORY: f64 = 0.5;
const SHARE_SQLITE: f64 = 0.25;
/// What 10,000 sessions that wait may take.
const WAITING_MB: f64 = 100.0;

/// A part of it that can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Pairs,
    Grants,
    Memory,
}

/// Everything about locks over HTTP; what was not measured is empty.
#[derive(Serialize)]
pub(crate) struct Http {
    pairs: Vec<pairs::Pairs>,
    grants: Vec<grant::Grants>,
    memory: Vec<memory::Memory>,
}

pub(crate) fn measure(bench: &Bench, program: Option<&Path>, part: Option<Part>) -> Result<Http> {
    let program = program_or_beside(program)?;
    let wants = |one: Part| part.is_none_or(|part| part == one);
    let mut http = Http { pairs: Vec::new(), grants: Vec::new(), memory: Vec::new() };
    if wants(Part::Pairs) {
        http.pairs = pairs::measure(bench, &program)?;
    }
    if wants(Part::Grants) {
        http.grants = grant::measure(bench, &program)?;
    }
    if wants(Part::Memory) {
        http.memory = memory::measure(bench, &program)?;
    }
    Ok(http)
}

pub(crate) fn tables(http: &Http) -> Vec<Table> {
    let mut tables = Vec::new();
    tables.extend((!http.pairs.is_empty()).then(|| pairs::table(&http.pairs)));
    tables.extend((!http.grants.is_empty()).then(|| grant::table(&http.grants)));
    tables.extend((!http.memory.is_empty()).then(|| memory::table(&http.memory)));
    tables
}

pub(crate) fn judge(http: &Http) -> Vec<Target> {
    let shares = [(gate::Kept::Memory, SHARE_MEMORY), (gate::Kept::Sqlite, SHARE_SQLITE)];
    let shares = shares.into_iter().flat_map(|(kept, goal)| {
        wire::Way::ALL.into_iter().filter_map(move |way| {
            let share = pairs::share(&http.pairs, kept, way)?;
            Some(Target {
                goal: format!(
                    "{}, {}, 64 clients: at least {goal} of the requests that an empty handler answers",
                    kept.as_str(),
                    way.as_str()
                ),
                seen: number(share),
                met: share >= goal,
            })
        })
    });
    let waiting = http.memory.iter().map(|memory| {
        let most_mb = memory.waiting_mb.max(memory.later_mb.unwrap_or_default());
        Target {
            goal: format!(
                "{}, {} sessions wait: less than {WAITING_MB} MB",
                memory.kept.as_str(),
                memory.waiting
            ),
            seen: format!("{} MB", number(most_mb)),
            met: most_mb < WAITING_MB,
        }
    });
    shares.chain(waiting).collect()
}
