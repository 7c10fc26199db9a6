//! A random walk: the real decisions beside a naive model, compared after every step, with every rule of
//! the contract checked on every commit.

mod command;
mod model;
mod pair;

use proptest::prelude::*;

use command::{Command, commands};
use pair::Pair;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_decisions_agree_with_a_naive_model(commands in commands()) {
        walk(&commands);
    }
}

fn walk(commands: &[Command]) {
    let mut pair = Pair::new();
    for command in commands {
        pair.step(command);
        pair.compare();
    }
}

/// The walk would prove little if it never got anywhere.
#[test]
fn the_walk_meets_every_kind_of_answer() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut pairs = Pair::new();
    for _ in 0..60 {
        let walk = commands().new_tree(&mut runner).expect("commands can be made").current();
        let mut pair = Pair::new();
        for command in &walk {
            pair.step(command);
        }
        pairs.answers.append(&mut pair.answers);
    }
    let met: Vec<&str> = pairs.answers.iter().map(String::as_str).collect();
    for answer in [
        "Granted",
        "Busy",
        "Queued",
        "Deadlock",
        "SessionEnded",
        "Upgrade",
        "Renewed",
        "Released",
        "NotHolder",
        "NotHeld",
        "Gone",
        "TooLate",
        "Alive",
        "Ended",
        "Broken",
        "Reentrant",
    ] {
        assert!(met.contains(&answer), "never met {answer}: {met:?}");
    }
}
