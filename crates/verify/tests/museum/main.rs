//! The bug museum: stores that get it wrong, each in one known way, and the check that finds out.
//!
//! An exhibit is a wrapper around a SQLite store, opened by a URL like `museum+deaf:sqlite:/path`, so that several
//! processes share it. None of this is in any program that is shipped.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clocks;
mod commits;
mod exhibit;
mod fences;
mod locks;
mod reads;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bell_verify::{Effort, Finding, Program, Setting, Verdict};

use exhibit::Museum;

const WORKER: &str = "BELL_MUSEUM_WORKER";

/// Another process of a run, when one of the tests below starts it; otherwise nothing.
#[test]
fn worker() {
    if std::env::var_os(WORKER).is_some() {
        bell_verify::work(&Museum);
    }
}

#[expect(clippy::disallowed_methods, reason = "the checks need several processes")]
fn this_test() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker", "--nocapture", "--test-threads=1"]).env(WORKER, "1");
    command.stderr(Stdio::null());
    command
}

/// What these checks find in the store with this flaw.
fn look(flaw: &str, checks: &[&str]) -> Vec<Finding> {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting {
        url: format!("museum+{flaw}:sqlite:{}", folder.path().join("exhibit.db").display()),
        open: Arc::new(Museum),
        program: Program::new(this_test),
        effort: Effort::Usual,
        limit: Duration::from_secs(120),
        only: checks.iter().map(|check| (*check).to_owned()).collect(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = bell_verify::verify(setting, &|_| {}, std::future::pending());
    runtime.block_on(run).unwrap().findings
}

/// Makes a test for each exhibit: its flaw, the check that finds it, and what the check says of it. And one: a store
/// without a flaw passes all the same checks.
macro_rules! exhibits {
    ($($test:ident: $flaw:literal, $check:literal, [$($seen:literal),*];)*) => {
        $(#[test]
        fn $test() {
            let findings = look($flaw, &[$check]);
            let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
            let for_this = [$($seen),*].iter().any(|seen| finding.evidence.contains(seen));
            assert!(finding.verdict == Verdict::Failed && for_this, "{finding:#?}");
        })*

        #[test]
        fn a_store_without_a_flaw_passes_the_same_checks() {
            let mut checks = vec![$($check),*];
            checks.sort_unstable();
            checks.dedup();
            let findings = look("none", &checks);
            assert_eq!(findings.len(), checks.len());
            let failed: Vec<_> = findings.iter().filter(|found| found.verdict != Verdict::Passed).collect();
            assert!(failed.is_empty(), "{failed:#?}");
        }

        #[test]
        fn every_exhibit_has_a_test() {
            let tested = [$($flaw),*];
            let untested: Vec<_> = exhibit::NAMES.iter().filter(|name| !tested.contains(name)).collect();
            assert!(untested.is_empty() && tested.len() >= 12, "{untested:?}");
        }
    };
}

exhibits! {
    a_commit_that_expects_nothing_lets_two_in:
        "unchecked", "exclusion", ["two processes had the key at once"];
    checking_first_and_acting_later_lets_two_in:
        "check-then-act", "exclusion", ["at once", "give the key back", "got fence", "itself was"];
    a_guard_that_ignores_fences_lets_a_stale_writer_in:
        "unguarded", "stale-writer", ["stale writes were accepted"];
    an_expectation_of_any_version_lets_a_late_release_free_the_successor:
        "any-version", "late-acts", ["should be held with fence"];
    a_commit_in_pieces_is_seen_half_done: "piecemeal", "all-or-nothing", ["always written together"];
    a_commit_acknowledged_before_it_is_stored_is_lost:
        "write-behind", "acknowledged", ["were gone when their process was killed"];
    a_commit_that_is_acknowledged_and_forgotten_is_lost:
        "forgetful", "acknowledged", ["were gone when their process was killed"];
    a_counter_in_memory_begins_anew: "counter-in-memory", "fences", ["was granted after"];
    a_fence_from_a_coarse_clock_repeats: "coarse-fence", "fences", ["was granted after"];
    a_clock_that_runs_too_fast_ends_leases_early: "fast-clock", "expiry", ["early"];
    the_clock_of_each_client_is_no_clock: "wall-clock", "wrong-clock", ["early"];
    a_clock_that_jumps_is_seen: "jumping-clock", "clock", ["it jumps"];
    a_clock_that_goes_back_is_seen: "backward-clock", "clock", ["went back"];
    what_is_remembered_too_long_is_stale: "stale-reads", "fresh-reads", ["had been acknowledged"];
    a_change_that_is_never_told_is_missed: "deaf", "push", ["changes were not told"];
    a_release_by_anybody_frees_the_holder: "anyones-release", "late-acts", ["should be held with fence"];
    a_renewal_that_takes_the_key_again_brings_it_back: "resurrection", "late-acts", ["brought back a lease"];
    keys_granted_one_by_one_are_a_partial_grant: "one-by-one", "several-keys", ["should be free"];
    a_release_that_is_only_acknowledged_serves_nobody:
        "lost-release", "no-lost-release", ["until the time was up"];
    a_cycle_that_nobody_sees_is_a_deadlock: "blind-to-cycles", "deadlock", ["who closed a ring"];
    a_session_that_never_ends_keeps_what_it_held: "endless-session", "fences", ["is held by"];
}
