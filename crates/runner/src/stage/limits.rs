//! Limits that the kernel holds for each process.
//!
//! Limits of the whole run, over all its processes, are the cgroup's or the supervisor's; what is here stands
//! behind them, since one process alone must never be able to use more.

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use crate::error::{Error, Result};
use crate::launch::Limits;

/// After this the usual signal for used-up processor time has had its chance.
const CPU_MERCY_SECONDS: u64 = 5;

/// Sets them for this process and whatever it becomes or starts.
///
/// There is no limit on address space: runtimes reserve much more of it than they ever use. And none on
/// processes: the kernel counts those per user, over all runs.
pub(super) fn apply(limits: &Limits) -> Result<()> {
    match (limits.open_files, limits.usual_open_files) {
        (Some(count), _) => set(Resource::Nofile, "open files", count, count)?,
        (None, Some(usual)) => set(Resource::Nofile, "open files", usual, u64::MAX)?,
        (None, None) => {}
    }
    if let Some(seconds) = limits.cpu_seconds {
        set(Resource::Cpu, "processor time", seconds, seconds + CPU_MERCY_SECONDS)?;
    }
    if let Some(bytes) = limits.memory_bytes {
        set(Resource::Data, "memory", bytes, bytes)?;
    }
    set(Resource::Core, "core files", 0, 0)?;
    if let Some(weight) = limits.cpu_weight {
        // Being nicer is always permitted; where it is not enough the cgroup's weight counts.
        let _ = nice(niceness(weight));
    }
    Ok(())
}

fn set(resource: Resource, what: &str, soft: u64, hard: u64) -> Result<()> {
    // Nobody but root can go above what holds already.
    let ceiling = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(soft.min(ceiling)), maximum: Some(hard.min(ceiling)) };
    setrlimit(resource, limit).map_err(|error| Error::io(format!("limit {what}"), error))
}

/// Each step of niceness is a quarter less of the processor; a weight of 100 is no step at all.
fn niceness(weight: u32) -> i32 {
    let mut share = 100.0;
    let mut steps = 0;
    while share * 0.9 > f64::from(weight) && steps < 19 {
        share /= 1.25;
        steps += 1;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_weight_is_nicer_and_a_usual_one_changes_nothing() {
        assert_eq!(niceness(100), 0);
        assert_eq!(niceness(10_000), 0);
        assert_eq!(niceness(80), 1);
        assert_eq!(niceness(1), 19);
        assert!(niceness(10) > niceness(50));
    }
}
