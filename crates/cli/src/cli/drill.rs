//! The drill, and the check-up.

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct DrillArgs {
    /// How many rounds to play: in each a holder is paused, and another is killed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,
    /// How long the leases of the paused and the killed last: 1s to 60s; a round takes about twice as long
    #[arg(long, value_name = "TIME", default_value = "2s", allow_hyphen_values = true)]
    pub(crate) ttl: String,
}

#[derive(Args, Debug)]
pub(crate) struct DrillWorkerArgs {
    /// Where the drill writes.
    #[arg(long)]
    pub(crate) scope: String,
}

pub(super) const DRILL_EXAMPLES: &str = "\
Real processes on this store, in a scope of its own that is removed afterwards. A takes a lock and writes
through a guard, is paused past its ttl, B takes over and writes, A wakes up and writes: it must know that it
has lost, and where it does not look, the guard must refuse it. Then the same with a holder that is killed.

Exit codes: 0 no stale write got through; 1 something did, or a rule was broken; 5 it could not be finished.

Examples:
  bell drill
  bell drill --store redis://db.example --rounds 10
  bell drill --store postgres://bell@db.example/app --ttl 5s --json";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Says in plain words what this store promises, what it can lose and when, and what to change. One record is
written and removed. Levels: ok, note, warning (it can cost an outage), broken (something can't work), unsafe (a
lock may have two holders, a fence may repeat, or others can read or change what is not theirs).

Exit codes: 0 sound, warnings included; 1 something is unsafe or broken; 3 the project belongs to another user;
4 config.toml has errors; 5 the store can't be reached or takes no commits.

Examples:
  bell doctor
  bell doctor --store redis://db.example
  bell doctor --store postgres://bell@db.example/app --json";
