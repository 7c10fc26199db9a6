//! A thousand stories, and that each is the same every time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bell_sim::journal::Keep;
use bell_sim::story::{Play, play, play_and_explain};
use bell_sim::tally::Tally;

/// Half of the thousand, so that two cores share the work.
const HALF: u64 = 500;

fn of(seed: u64) -> Play {
    Play { seed, flaw: None, keep: Keep::Nothing }
}

/// What must happen now and then, or the stories prove little.
const GOES_WRONG: &[&str] = &[
    "completed",
    "failed",
    "crashed",
    "timeout",
    "killed",
    "lost",
    "busy",
    "unstartable",
    "not_started",
    "claim lapsed",
    "rerun",
    "retry",
    "tick skipped",
    "job shelved",
    "job replayed",
    "pause",
    "resume",
    "wait for a lock",
    "job waits for its locks",
    "act of a holder",
    "guarded write",
    "stale write refused",
    "process killed",
    "process stopped",
    "machine stopped",
    "power cut",
    "partition",
    "clock set",
    "death on the way",
];

fn hold(seeds: std::ops::RangeInclusive<u64>) {
    let mut all = Tally::default();
    for seed in seeds {
        let told = play_and_explain(of(seed)).unwrap();
        assert!(told.broken.is_none(), "{}", told.explain(None));
        all.add(&told.tally);
    }
    let never: Vec<_> = GOES_WRONG.iter().filter(|what| !all.0.contains_key(*what)).collect();
    assert!(never.is_empty(), "never happened: {never:?}; what did: {all:?}");
}

#[test]
fn every_invariant_holds_in_the_first_half_of_a_thousand_stories() {
    hold(1..=HALF);
}

#[test]
fn every_invariant_holds_in_the_second_half() {
    hold(HALF + 1..=2 * HALF);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 1..=5 {
        let [first, second] = [0, 1].map(|_| play(of(seed)).unwrap());
        assert!(first.commits > 10, "something happened");
        assert_eq!((first.digest, first.commits), (second.digest, second.commits), "seed {seed}");
        assert_eq!((first.requests, first.lasted), (second.requests, second.lasted), "seed {seed}");
    }
}

#[test]
fn another_seed_gives_another_history() {
    assert_ne!(play(of(1)).unwrap().digest, play(of(2)).unwrap().digest);
}

#[test]
fn a_story_that_is_kept_is_the_one_that_was_not() {
    let kept = play(Play { keep: Keep::End, ..of(3) }).unwrap();
    assert_eq!(kept.digest, play(of(3)).unwrap().digest);
    assert!(!kept.end.is_empty());
}
