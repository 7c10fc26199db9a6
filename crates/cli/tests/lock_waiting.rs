//! Waiting for locks with the real binary: who gets them, and who leaves the queue.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Place, start};

const KEY: &str = "deploy://api-prod";

fn fence(answer: &Value) -> u64 {
    answer["fence"].as_u64().unwrap_or_else(|| panic!("no fence in {answer}"))
}

#[test]
fn a_waiter_gets_the_lock_and_it_stands_after_its_process_has_gone() {
    for place in Place::each() {
        let first = fence(&place.json(&["lock", "acquire", KEY]));
        let waiter = place.start(&["--json", "lock", "acquire", KEY, "--wait", "10m", "--label", "waiter"]);
        place.until_waiting(KEY, 1);
        place.run(&["lock", "release", KEY]).expect(0);
        let granted = waiter.end().expect(0).json();
        assert!(fence(&granted) > first);
        for _ in 0..3 {
            let state = place.show(KEY);
            assert_eq!((&state["fence"], &state["holder"]["label"]), (&granted["fence"], &"waiter".into()));
        }
        place.run(&["lock", "release", KEY]).expect(0);
        assert!(place.is_free(KEY));
    }
}

#[test]
fn a_waiter_that_is_told_to_stop_leaves_the_queue() {
    for place in Place::each() {
        place.run(&["lock", "acquire", KEY]).expect(0);
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let waiter = place.start(&["lock", "acquire", KEY, "--wait", "10m"]);
            place.until_waiting(KEY, 1);
            waiter.signal(signal);
            waiter.end().expect(code);
            assert_eq!(place.show(KEY)["waiting"], 0);
        }
    }
}

#[test]
fn a_waiter_of_a_given_session_that_is_told_to_stop_leaves_the_queue() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", KEY]).expect(0);
    let other = place.json(&["lock", "acquire", "deploy://other"]);
    let mut command = place.command(&["lock", "acquire", KEY, "--wait", "10m"]);
    command.env("BELL_SESSION", other["token"].as_str().unwrap());
    let waiter = start(command);
    place.until_waiting(KEY, 1);
    waiter.signal(Signal::INT);
    waiter.end().expect(130);
    assert_eq!(place.show(KEY)["waiting"], 0);
    assert!(!place.is_free("deploy://other"), "what the session held before is still its own");
}

#[test]
fn a_waiter_that_is_killed_does_not_block_those_behind_it() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", KEY]).expect(0);
    let killed = place.start(&["lock", "acquire", KEY, "--wait", "10m"]);
    place.until_waiting(KEY, 1);
    killed.kill();
    let second = place.start(&["lock", "acquire", KEY, "--wait", "10m", "--label", "second"]);
    place.until_waiting(KEY, 1);
    place.run(&["lock", "release", KEY]).expect(0);
    second.end().expect(0);
    assert_eq!(place.show(KEY)["holder"]["label"], "second");
}

#[test]
fn a_wait_that_is_over_says_so_with_its_own_code() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", KEY, "--label", "ci"]).expect(0);
    let refused = place.run(&["--json", "lock", "acquire", KEY, "--wait", "50ms"]).expect(8).json();
    assert_eq!(refused["outcome"], "timed_out");
    assert_eq!(refused["holder"]["label"], "ci");
}

#[test]
fn waiting_for_a_key_takes_nothing() {
    for place in Place::each() {
        place.run(&["lock", "acquire", KEY]).expect(0);
        assert_eq!(place.json(&["lock", "wait", "job:free"])["outcome"], "free");
        let late = place.run(&["--json", "lock", "wait", KEY, "--timeout", "50ms"]).expect(8).json();
        assert_eq!((&late["outcome"], &late["key"]), (&"timed_out".into(), &KEY.into()));
        let waiter = place.start(&["--json", "lock", "wait", KEY]);
        place.run(&["lock", "release", KEY]).expect(0);
        assert_eq!(waiter.end().expect(0).json()["outcome"], "free");
        assert!(place.is_free(KEY));
    }
}

#[test]
fn changes_are_told_as_they_happen() {
    let place = Place::sqlite();
    place.run(&["lock", "run", "job:first", "--", "true"]).expect(0);
    let mut watching = place.start(&["--json", "lock", "watch", "deploy://"]);
    place.run(&["lock", "acquire", "job:other"]).expect(0);
    place.run(&["lock", "acquire", KEY]).expect(0);
    let held: Value = serde_json::from_str(&watching.line()).unwrap();
    assert_eq!((&held["outcome"], &held["key"]), (&"held".into(), &KEY.into()));
    place.run(&["lock", "release", KEY]).expect(0);
    let free: Value = serde_json::from_str(&watching.line()).unwrap();
    assert_eq!((&free["outcome"], &free["key"]), (&"free".into(), &KEY.into()));
    watching.signal(Signal::INT);
    watching.end().expect(130);
}
