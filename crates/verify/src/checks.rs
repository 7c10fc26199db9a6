//! Every check: what it proves, which rules it is about, and what it needs. One file each.
//!
//! A check looks at the store as a program does that uses it: through handles of its own, from other processes
//! where that matters, and by this machine's boot clock, which is nobody's to set.

mod acknowledged;
mod all_or_nothing;
mod clock;
mod crash;
mod deadlock;
mod durability;
mod exclusion;
mod expiry;
mod fences;
mod fresh_reads;
mod hand_over;
mod late_acts;
mod no_lost_release;
mod push;
mod several_keys;
mod stale_writer;
mod unknown_outcome;
mod wrong_clock;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::ground::Ground;
use crate::verdict::Done;

/// One thing that is proved.
#[derive(Debug)]
pub struct Check {
    /// What it is called.
    pub name: &'static str,
    /// What it proves, as a sentence.
    pub proves: &'static str,
    /// The rules of the lock contract that it is about, by number.
    pub rules: &'static [u8],
    /// What has to be there for it.
    pub(crate) needs: Needs,
    /// Which checks it may run beside.
    pub(crate) lane: Lane,
    /// How much of its lane's time it gets, compared with the others there.
    pub(crate) weight: u32,
    /// Less time than this is none.
    pub(crate) least: Duration,
    pub(crate) run: fn(Ground) -> Running,
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Done>>>;

/// What has to be there for a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Any store.
    Nothing,
    /// A store that other processes can open.
    Processes,
}

/// Checks of one lane run one after the other, and lanes beside each other: those that mostly wait don't hold up
/// those that work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// They keep the store busy.
    Working,
    /// They wait for leases to run out.
    Watching,
    /// It waits for longer than all others.
    Apart,
}

impl Lane {
    pub(crate) const ALL: [Self; 3] = [Self::Working, Self::Watching, Self::Apart];
}

impl Check {
    /// The rules as the contract writes them.
    pub fn rule_names(&self) -> Vec<String> {
        self.rules.iter().map(|rule| format!("L{rule}")).collect()
    }
}

macro_rules! checks {
    ($($module:ident $name:literal [$($rule:literal)*] $needs:ident $lane:ident $weight:literal $least:literal $proves:literal;)*) => {
        /// All checks, in the order in which they are reported.
        pub const CHECKS: &[Check] = &[
            $(Check {
                name: $name,
                proves: $proves,
                rules: &[$($rule),*],
                needs: Needs::$needs,
                lane: Lane::$lane,
                weight: $weight,
                least: Duration::from_secs($least),
                run: |ground| Box::pin($module::run(ground)),
            },)*
        ];
    };
}

checks! {
    exclusion "exclusion" [2 3 19] Processes Working 6 2
        "of many processes that race for a key, never two have it at once";
    fences "fences" [3] Nothing Working 2 2
        "every grant has a greater fence than the one before, over release, expiry, break, a new session and reopening";
    stale_writer "stale-writer" [11 19 20] Processes Watching 4 4
        "a holder that was stopped past the end of its lease can't write any more";
    expiry "expiry" [9 11] Processes Watching 3 4
        "a lease is free after its ttl, and never while its holder may rely on it";
    crash "crash" [16] Processes Apart 1 3
        "what a killed process held goes to the next in line";
    late_acts "late-acts" [12 14 15] Nothing Working 2 2
        "a late release or renewal, or one by another session, touches nobody's lease";
    deadlock "deadlock" [8] Nothing Working 1 1
        "a wait that would never end is refused, and only that one";
    several_keys "several-keys" [7] Nothing Working 2 1
        "several keys are granted all or nothing";
    no_lost_release "no-lost-release" [6] Nothing Working 2 1
        "each release wakes the next in line, in the order in which they came";
    unknown_outcome "unknown-outcome" [23] Nothing Working 1 2
        "a request that is repeated has one outcome, and one that is given up leaves nothing behind";
    hand_over "hand-over" [6] Processes Working 3 2
        "a key that is given back is soon with the next process in line";
    push "push" [6 22] Processes Working 2 2
        "changes by others arrive as the store claims: told, or looked for";
    clock "clock" [10] Nothing Watching 2 2
        "the store's clock never goes back, and runs as fast as this machine's";
    wrong_clock "wrong-clock" [10] Processes Watching 4 6
        "a process whose wall clock is an hour off changes nothing";
    all_or_nothing "all-or-nothing" [2 7 22] Nothing Working 2 1
        "a commit happens as a whole or not at all, and not if anything it expected has moved";
    fresh_reads "fresh-reads" [5 18] Processes Working 2 1
        "what one process has committed, every other process reads";
    acknowledged "acknowledged" [22] Processes Working 2 1
        "what was acknowledged outlives the process that wrote it";
    durability "durability" [22] Nothing Watching 1 0
        "what an acknowledged commit survives, by the settings of this store";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_and_is_about_rules_of_the_contract() {
        for (place, check) in CHECKS.iter().enumerate() {
            assert!(!check.rules.is_empty() && check.rules.iter().all(|rule| (1..=24).contains(rule)));
            assert!(CHECKS[..place].iter().all(|other| other.name != check.name), "{}", check.name);
        }
    }
}
