//! Whether the goals are met in this run. Nothing fails if not: a busy machine is no bug.

use serde::Serialize;

use crate::Report;
use crate::folder;
use crate::handover::{Between, Handover};
use crate::http;
use crate::pairs::{Pairs, Way};
use crate::recipes;
use crate::requests::{ACQUIRE, RELEASE, Requests};
use crate::scheduler;
use crate::stores::Make;
use crate::table::{Table, number};
use crate::webhooks;

/// Pairs per second at 64 sessions on SQLite, in syncs of the disk.
const PAIRS_PER_SYNC: f64 = 3.0;
const BYTES_PER_LOCK: f64 = 1_024.0;
/// A hand-over between processes: a few milliseconds.
const HANDOVER_MS: f64 = 5.0;

/// A goal, and what was seen.
#[derive(Serialize)]
pub(crate) struct Target {
    pub(crate) goal: String,
    pub(crate) seen: String,
    pub(crate) met: bool,
}

pub(crate) fn judge(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    if let Some(pairs) = &report.pairs {
        targets.extend(throughput(pairs, report.limits.map(|limits| limits.fdatasync_per_second)));
        targets.extend(falling_cost(pairs));
    }
    targets.extend(report.requests.as_deref().map(one_commit_each));
    for handover in report.handover.iter().flatten() {
        targets.extend(quick(handover));
    }
    for bytes in report.bytes.iter().flatten() {
        targets.push(Target {
            goal: format!(
                "{}: at most {} bytes per held lock, {} per session",
                bytes.store.as_str(),
                number(BYTES_PER_LOCK),
                bytes.locks_per_session
            ),
            seen: number(bytes.bytes_per_lock),
            met: bytes.bytes_per_lock <= BYTES_PER_LOCK,
        });
    }
    targets.extend(report.recipes.iter().flat_map(recipes::judge));
    targets.extend(report.scheduler.iter().flat_map(scheduler::judge));
    targets.extend(report.webhooks.iter().flat_map(|deliveries| webhooks::judge(deliveries)));
    targets.extend(report.http.iter().flat_map(http::judge));
    targets.extend(report.folder.iter().flat_map(|claims| folder::judge(claims)));
    targets
}

fn sqlite_pairs(pairs: &[Pairs], sessions: usize) -> Option<&Pairs> {
    let is_meant = |one: &&Pairs| {
        one.store == Make::Sqlite && one.processes == 1 && one.way == Way::Bare && one.sessions == sessions
    };
    pairs.iter().find(is_meant)
}

/// Judged by the fastest disk that was seen in the whole run. The disk right beside a measurement is on show
/// in its row, but on a busy machine it may look slow for a second and flatter the locks.
fn throughput(pairs: &[Pairs], limit: Option<f64>) -> Option<Target> {
    let beside = pairs.iter().filter_map(|one| one.fdatasync_per_second);
    let fastest = beside.chain(limit).reduce(f64::max)?;
    let ratio = sqlite_pairs(pairs, 64)?.per_second / fastest;
    Some(Target {
        goal: format!(
            "SQLite, 64 sessions: at least {PAIRS_PER_SYNC} pairs per fdatasync, of the run's fastest"
        ),
        seen: number(ratio),
        met: ratio >= PAIRS_PER_SYNC,
    })
}

fn falling_cost(pairs: &[Pairs]) -> Option<Target> {
    let at = |sessions| Some(1e6 / sqlite_pairs(pairs, sessions)?.per_second);
    let costs = [at(1)?, at(16)?, at(64)?];
    let seen = costs.map(|us| format!("{} µs", number(us))).join(", ");
    Some(Target {
        goal: "SQLite: a pair costs less time at 16 sessions than at 1, and less at 64 than at 16".to_owned(),
        seen,
        met: costs.is_sorted_by(|fewer, more| fewer > more),
    })
}

fn one_commit_each(requests: &[Requests]) -> Target {
    let exact = |act: &str| requests.iter().any(|one| one.is_of(act) && one.is_one_commit());
    let met = exact(ACQUIRE) && exact(RELEASE);
    Target {
        goal: "an uncontended acquire, and a release, is one commit and no read".to_owned(),
        seen: if met { "so it is" } else { "see the requests" }.to_owned(),
        met,
    }
}

fn quick(handover: &Handover) -> Option<Target> {
    if handover.between != Between::Processes {
        return None;
    }
    let p50_ms = handover.latency.p50_us / 1_000.0;
    Some(Target {
        goal: format!(
            "{}, {} waiters: half of the hand-overs between processes within {HANDOVER_MS} ms",
            handover.store.as_str(),
            handover.waiters
        ),
        seen: format!("{} ms", number(p50_ms)),
        met: p50_ms <= HANDOVER_MS,
    })
}

pub(crate) fn table(targets: &[Target]) -> Table {
    let mut table = Table::new("Goals", &["goal", "seen", "met"]);
    for target in targets {
        let met = if target.met { "yes" } else { "no" };
        table.row(vec![target.goal.clone(), target.seen.clone(), met.to_owned()]);
    }
    table
}
