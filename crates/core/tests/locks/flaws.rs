//! The checks can fail: each known way to get it wrong is found by the search.

use bell_core::lock::Mode;

use crate::exhaustive::{Setting, search};
use crate::support::world::Flaw;

const SETTING: Setting = Setting { modes: [Mode::Exclusive; 3], undecided: 1, ticks: 2 };

#[track_caller]
fn is_found(flaw: Flaw, rules: &[&str]) {
    let found = search(SETTING, Some(flaw), 6);
    let Some((broken, trail)) = found.broken else { panic!("{flaw:?} was not noticed") };
    assert!(rules.contains(&broken.rule), "{flaw:?} was noticed as {broken} after {trail:?}");
}

#[test]
fn a_commit_that_does_not_compare_is_noticed() {
    is_found(Flaw::IgnoresCompare, &["L2", "L15"]);
}

#[test]
fn fences_that_start_again_are_noticed() {
    is_found(Flaw::ForgetsFences, &["L3"]);
}

#[test]
fn a_grant_to_the_dead_is_noticed() {
    is_found(Flaw::BelievesTheDead, &["L6"]);
}

#[test]
fn a_release_by_anybody_is_noticed() {
    is_found(Flaw::ReleasesForAnybody, &["L15"]);
}

#[test]
fn a_renewal_of_what_has_ended_is_noticed() {
    is_found(Flaw::RenewsWhatHasEnded, &["L9"]);
}

#[test]
fn serving_the_last_first_is_noticed() {
    is_found(Flaw::ServesTheLastFirst, &["L6"]);
}

#[test]
fn a_wait_that_closes_a_cycle_is_noticed() {
    is_found(Flaw::QueuesDeadlocks, &["L8"]);
}

#[test]
fn a_wait_that_stays_behind_is_noticed() {
    is_found(Flaw::LeaksWaits, &["storage", "L7"]);
}
