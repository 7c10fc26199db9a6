//! A command that may run without its locks, if their store is away: only for keys that whoever starts it has named, told
//! each time, and counted.

use std::time::Duration;

use bell_api::outcome::Outcome;
use bell_coord::tally;
use bell_core::key::Key;

use super::child::{Child, Group};
use super::supervise::{Signals, supervise};
use crate::answer::Refusal;
use crate::cli::RunArgs;
use crate::desk::Desk;

/// Whether a command that was refused its locks may run all the same. One key that nobody named is enough for no.
pub(super) fn is_allowed(args: &RunArgs, refusal: &Refusal) -> bool {
    let is_away = matches!(refusal.0.outcome, Outcome::Unavailable | Outcome::Unreachable);
    let is_named = |key: &String| args.fail_open.iter().any(|prefix| key.starts_with(prefix.as_str()));
    is_away && !args.fail_open.is_empty() && args.keys.iter().all(is_named)
}

/// Runs the command without its locks. Answers its exit code.
pub(super) async fn run(
    desk: &Desk,
    args: &RunArgs,
    first: &Key,
    group: Group,
    grace: Duration,
    signals: Signals,
) -> Result<u8, Refusal> {
    tally::failed_open();
    desk.say
        .talk(&format!("bell: the store does not answer: running without {first}, as --fail-open allows"));
    supervise(&desk.say, Child::start(&args.command, group, first, &[])?, &[], grace, signals).await
}
