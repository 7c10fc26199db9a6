//! The check-up with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bell_e2e::{Redis, free_port};
use serde_json::Value;
use support::{Place, eventually};

const PASSWORD: &str = "hunter2";

fn finding<'a>(checkup: &'a Value, about: &str) -> &'a Value {
    let findings = checkup["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["about"] == about).unwrap_or_else(|| panic!("{about}: {checkup}"))
}

#[test]
fn a_store_on_this_machine_is_sound_in_words_and_as_data() {
    for place in Place::each() {
        place.run(&["lock", "run", "job:first", "--", "true"]).expect(0);
        let ran = place.run(&["doctor"]).expect(0);
        assert!(ran.out.lines().last().unwrap().starts_with("sound: 0 unsafe"), "{ran:?}");
        assert!(ran.out.contains("a read takes ") && ran.err.is_empty(), "{ran:?}");
        let checkup = place.run(&["doctor", "--json"]).expect(0).json();
        assert_eq!(checkup["sound"], true);
        assert_eq!(checkup["bell"], env!("CARGO_PKG_VERSION"));
        assert_eq!(checkup["info"]["fail_over"], "none");
        assert!(checkup["seen"]["commit_us"].is_u64() && checkup["seen"]["machine"]["room"].is_object());
        assert_eq!(finding(&checkup, "commits")["level"], "ok");
    }
}

#[test]
fn what_lies_in_the_store_is_counted_and_left_alone() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", "deploy://api"]).expect(0);
    let checkup = place.json(&["doctor"]);
    assert_eq!(checkup["seen"]["leftovers"]["locks"], 1);
    assert_eq!(place.show("deploy://api")["outcome"], "held");
}

#[test]
fn redis_with_a_replica_is_unsafe_with_an_exit_code_of_its_own() {
    let primary = Redis::start_with(&["--requirepass", PASSWORD]);
    let port = primary.port().to_string();
    let _replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port, "--masterauth", PASSWORD]);
    let place = Place { url: format!("redis://:{PASSWORD}@127.0.0.1:{port}"), ..Place::sqlite() };
    // The primary counts a replica once it follows.
    eventually("the replica is seen", || place.json(&["store", "info"])["info"]["fail_over"] == "loses");
    let ran = place.run(&["doctor"]).expect(1);
    assert!(ran.out.contains("unsafe   fail-over") && ran.out.contains("next: Keep locks on"), "{ran:?}");
    let json = place.run(&["--json", "doctor"]).expect(1);
    assert_eq!((&json.json()["sound"], &json.json()["worst"]), (&Value::Bool(false), &Value::from("unsafe")));
    for told in [&ran.out, &ran.err, &json.out] {
        assert!(!told.contains(PASSWORD), "{told}");
    }
}

#[test]
fn a_store_that_may_have_gone_back_names_the_command_that_helps() {
    let mut server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
    let place = Place { url: server.url("bell"), ..Place::sqlite() };
    place.run(&["lock", "acquire", "deploy://api"]).expect(0);
    server.restart();
    let checkup = place.run(&["--json", "doctor"]).expect(1).json();
    let commits = finding(&checkup, "commits");
    assert_eq!(commits["level"], "unsafe");
    assert!(commits["next"].as_str().unwrap().contains("bell store raise-epoch --yes"), "{commits}");
    place.run(&["store", "raise-epoch", "--yes"]).expect(0);
    assert_eq!(place.run(&["--json", "doctor"]).expect(0).json()["worst"], "warning");
}

#[test]
fn a_store_that_can_not_be_reached_says_what_to_check() {
    let place = Place { url: format!("redis://127.0.0.1:{}", free_port()), ..Place::sqlite() };
    let ran = place.run(&["doctor"]).expect(5);
    assert!(ran.err.contains("hint: ") && ran.out.is_empty(), "{ran:?}");
    let refusal = place.run(&["--json", "doctor"]).expect(5).json();
    assert_eq!(refusal["outcome"], "unavailable");
    assert!(!refusal["hint"].as_str().unwrap().is_empty(), "{refusal}");
}
