//! How fast and how large the scheduler is: the real daemon, real processes, a real disk.
//!
//! | module | what is measured, or what for |
//! | --- | --- |
//! | `launching` | from a trigger to a running agent |
//! | `intake` | triggers accepted per second |
//! | `idle` | a daemon with nothing to do |
//! | `start_up` | starts, with a short and a long past |
//! | `queue` | what a job costs while many wait |
//! | `goals` | whether the goals are met |
//! | `fleet` | projects, and the daemon as a process |

pub(crate) mod fleet;
mod goals;
mod idle;
mod intake;
mod launching;
mod queue;
mod start_up;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::bench::Bench;
use crate::table::Table;
use crate::targets::Target;

/// Everything about the scheduler.
#[derive(Serialize)]
pub(crate) struct Scheduler {
    launching: launching::Launching,
    intake: Vec<intake::Intake>,
    idle: Vec<idle::Idle>,
    start_up: Vec<start_up::StartUp>,
    queue: Vec<queue::Cost>,
}

pub(crate) fn measure(bench: &Bench, program: Option<&Path>) -> Result<Scheduler> {
    let program = program_or_beside(program)?;
    let launching = launching::measure(bench, &program)?;
    let intake = intake::measure(bench)?;
    let idle = idle::measure(bench, &program)?;
    let (start_up, queue) = start_up::measure(bench, &program)?;
    Ok(Scheduler { launching, intake, idle, start_up, queue })
}

/// The program that was named, or the one beside this one.
pub(crate) fn program_or_beside(program: Option<&Path>) -> Result<PathBuf> {
    program.map_or_else(beside_this_program, |program| Ok(program.to_owned()))
}

fn beside_this_program() -> Result<PathBuf> {
    let this = std::env::current_exe().context("could not find this program")?;
    let bell = this.with_file_name("bell");
    ensure!(
        bell.exists(),
        "could not find {}: build bell-cli too, or name it with --program",
        bell.display()
    );
    Ok(bell)
}

pub(crate) fn tables(scheduler: &Scheduler) -> Vec<Table> {
    vec![
        launching::table(&scheduler.launching),
        intake::table(&scheduler.intake),
        idle::table(&scheduler.idle),
        start_up::table(&scheduler.start_up),
        queue::table(&scheduler.queue),
    ]
}

pub(crate) fn judge(scheduler: &Scheduler) -> Vec<Target> {
    goals::judge(scheduler)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bell_store_sqlite::Sqlite;

    use super::*;
    use crate::bench::Pace;

    #[test]
    fn what_needs_no_daemon_is_measured_and_no_act_costs_more_in_a_long_queue() {
        let bench = Bench::new(&std::env::temp_dir(), Pace::Smoke).unwrap();
        let store = Arc::new(Sqlite::open(&bench.new_place()).unwrap());
        let costs = queue::measure(&bench, store).unwrap();
        assert_eq!(costs.len(), 12);
        let grows = goals::does_not_grow(&costs);
        assert!(grows.met, "{}", grows.seen);
        assert_eq!(intake::measure(&bench).unwrap().len(), 3);
    }
}
