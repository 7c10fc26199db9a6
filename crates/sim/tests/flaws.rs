//! The proof that it can fail: each seeded flaw is caught by the invariant it breaks, in a bounded number of stories.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bell_sim::flaws::Flaw;
use bell_sim::journal::Keep;
use bell_sim::story::{Play, play, play_and_explain};
use clap::ValueEnum;

/// Stories in which a flaw must show.
const WITHIN: u64 = 200;

fn with(flaw: Flaw, seed: u64) -> Play {
    Play { seed, flaw: Some(flaw), keep: Keep::Nothing }
}

/// The seed at which the flaw is caught by what it breaks.
fn caught(flaw: Flaw) -> Option<u64> {
    (1..=WITHIN).find(|seed| {
        let broken = play(with(flaw, *seed)).unwrap().broken;
        broken.is_some_and(|broken| broken.invariant == flaw.breaks())
    })
}

#[test]
fn each_flaw_is_caught_by_the_invariant_it_breaks() {
    let missed: Vec<&Flaw> = Flaw::value_variants().iter().filter(|flaw| caught(**flaw).is_none()).collect();
    assert!(missed.is_empty(), "not caught within {WITHIN} seeds: {missed:?}");
}

#[test]
fn a_failure_tells_its_seed_its_invariant_its_last_events_and_how_to_see_it_again() {
    let seed = caught(Flaw::FenceKept).unwrap();
    let told = play_and_explain(with(Flaw::FenceKept, seed)).unwrap();
    let words = told.explain(Some(Flaw::FenceKept));
    assert!(words.contains(&format!("seed {seed}: fences_rise did not hold")), "{words}");
    assert!(words.contains(&format!("--seed {seed} --flaw fence-kept --trace")), "{words}");
    assert!(told.end.iter().any(|line| line.contains("lock/")), "{words}");
}

#[test]
fn every_invariant_has_a_flaw_that_it_catches() {
    let breaks: Vec<&str> = Flaw::value_variants().iter().map(|flaw| flaw.breaks()).collect();
    let setting = bell_sim::setting::Setting::draw(&bell_sim::chance::Chance::new(1));
    for invariant in bell_sim::invariants::all(&setting) {
        assert!(breaks.contains(&invariant.name()), "nothing shows that {} can fail", invariant.name());
    }
}
