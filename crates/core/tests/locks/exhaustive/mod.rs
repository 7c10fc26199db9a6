//! Every interleaving of a small world: three sessions, two keys, time that passes, one crash, and
//! decisions that are committed later than they were made.
//!
//! States that differ only in how far the clock and the counters have got are one state, so the search
//! through all of them up to a number of actions ends.

mod canon;
mod node;
mod search;

use bell_core::lock::Mode;

pub(crate) use node::Setting;
pub(crate) use search::search;

use Mode::{Exclusive, Shared};

const ALL_EXCLUSIVE: Setting = Setting { modes: [Exclusive, Exclusive, Exclusive], undecided: 1, ticks: 2 };

#[track_caller]
fn holds_up(setting: Setting, actions: usize, states_at_least: usize) {
    let found = search(setting, None, actions);
    println!("{} states, {} transitions up to {actions} actions", found.states, found.transitions);
    if let Some((broken, trail)) = found.broken {
        panic!("{broken}\nafter {trail:#?}");
    }
    assert!(found.states >= states_at_least, "only {} states", found.states);
    assert!(found.conflicts > 0 && found.deadlocks > 0 && found.handovers > 0, "{found:?}");
}

#[test]
fn every_rule_holds_in_every_order_of_exclusive_requests() {
    holds_up(ALL_EXCLUSIVE, 6, 100_000);
}

#[test]
fn every_rule_holds_in_every_order_of_shared_and_exclusive_requests() {
    holds_up(Setting { modes: [Shared, Shared, Exclusive], ..ALL_EXCLUSIVE }, 5, 30_000);
}

#[test]
fn every_rule_holds_when_everybody_commits_late() {
    holds_up(Setting { undecided: 3, ..ALL_EXCLUSIVE }, 5, 50_000);
}
