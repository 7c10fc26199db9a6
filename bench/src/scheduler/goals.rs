//! The goals of the scheduler, on two cores.

use super::Scheduler;
use super::queue::Cost;
use crate::table::{number, whole};
use crate::targets::Target;

const START_UP_MS: f64 = 100.0;
const IDLE_RSS_MB: f64 = 25.0;
const IDLE_CPU_PERCENT: f64 = 0.1;
const BEYOND_FORK_MS: f64 = 20.0;

pub(super) fn judge(scheduler: &Scheduler) -> Vec<Target> {
    let beyond = scheduler.launching.beyond_fork_ms();
    let mut targets = vec![Target {
        goal: format!(
            "half of the agents run within {BEYOND_FORK_MS} ms of acceptance, beyond the fork itself"
        ),
        seen: format!("{} ms", number(beyond)),
        met: beyond < BEYOND_FORK_MS,
    }];
    for start in scheduler.start_up.iter().filter(|start| start.agents == 10) {
        let ms = start.took.p50_us / 1_000.0;
        targets.push(Target {
            goal: format!("ready within {START_UP_MS} ms with 10 agents"),
            seen: format!("{} ms", number(ms)),
            met: ms < START_UP_MS,
        });
    }
    for idle in &scheduler.idle {
        let agents = whole(idle.agents);
        targets.push(Target {
            goal: format!("idle, {agents} agents: less than {IDLE_RSS_MB} MB resident"),
            seen: format!("{} MB", number(idle.rss_mb)),
            met: idle.rss_mb < IDLE_RSS_MB,
        });
        targets.push(Target {
            goal: format!("idle, {agents} agents: less than {IDLE_CPU_PERCENT} % of a processor"),
            seen: format!("{:.3} %", idle.cpu_percent),
            met: idle.cpu_percent < IDLE_CPU_PERCENT,
        });
    }
    targets.push(does_not_grow(&scheduler.queue));
    targets
}

/// What is asked of the store for one job is the same however many wait. Finding a record among n is the engine's part,
/// and takes log n.
pub(super) fn does_not_grow(costs: &[Cost]) -> Target {
    let asked = |cost: &Cost| cost.commits + cost.reads + cost.scans + cost.records;
    let shallow = |act: &str| costs.iter().find(|cost| cost.act == act);
    let grows = |cost: &&Cost| shallow(cost.act).is_some_and(|first| asked(cost) > asked(first) + SLACK);
    let grown: Vec<&str> = costs.iter().filter(grows).map(|cost| cost.act).collect();
    Target {
        goal: "no act asks more of the store for a job when 100,000 wait".to_owned(),
        seen: if grown.is_empty() { "none does".to_owned() } else { grown.join(", ") },
        met: grown.is_empty(),
    }
}

/// Records that a look ahead into the queue brings beside the one that is wanted: none from a queue of one.
const SLACK: f64 = 8.0;
