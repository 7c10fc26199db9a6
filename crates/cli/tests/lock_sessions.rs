//! Whose lock it is, with the real binary: tokens, where they are kept, and who may use them.

mod support;

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::{Place, finish};

const KEY: &str = "deploy://api-prod";

fn fence(answer: &Value) -> u64 {
    answer["fence"].as_u64().unwrap_or_else(|| panic!("no fence in {answer}"))
}

#[test]
fn somebody_elses_lock_is_not_given_back() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", KEY, "--label", "mine"]).expect(0);
    for command in ["release", "renew"] {
        let mut other = place.command(&["--json", "lock", command, KEY]);
        other.env("XDG_STATE_HOME", place.path("other"));
        let refused = finish(other).expect(1).json();
        assert_eq!(refused["outcome"], "not_holder");
        assert_eq!(refused["holder"]["label"], "mine");
    }
    assert!(!place.is_free(KEY));
}

#[test]
fn a_token_in_the_environment_acts_for_its_session() {
    let place = Place::sqlite();
    let granted = place.json(&["lock", "acquire", KEY]);
    let token = granted["token"].as_str().unwrap();
    let with = |token: &str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("BELL_SESSION", token).env("XDG_STATE_HOME", place.path("elsewhere"));
        finish(command)
    };
    let again = with(token, &["--json", "lock", "acquire", KEY]).expect(0).json();
    assert_eq!((&again["fence"], &again["already_held"]), (&granted["fence"], &true.into()));
    assert!(again.get("token").is_none(), "only the session's maker is shown the token");

    let last = if token.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &token[..token.len() - 1]);
    for wrong in [wrong.as_str(), "nonsense"] {
        let refused = with(wrong, &["--json", "lock", "release", KEY]).expect(3).json();
        assert_eq!(refused["outcome"], "unauthorized");
        assert!(refused["hint"].is_string());
    }
    with(token, &["lock", "release", KEY]).expect(0);
    assert!(place.is_free(KEY));
}

#[test]
fn a_session_file_is_made_for_its_owner_and_used_again() {
    let place = Place::sqlite();
    let file = place.path("token");
    let file_name = file.to_str().unwrap();
    place.run(&["lock", "acquire", KEY, "--session-file", file_name]).expect(0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let second = place.json(&["lock", "acquire", "deploy://b", "--session-file", file_name]);
    assert_eq!(second["holder"]["session"], place.show(KEY)["holder"]["session"]);
    place.run(&["lock", "release", KEY]).expect(1);
    place.run(&["lock", "release", KEY, "--session-file", file_name]).expect(0);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    place.run(&["lock", "release", "deploy://b", "--session-file", file_name]).expect(3);
}

#[test]
fn a_request_that_is_repeated_has_the_one_outcome() {
    let place = Place::sqlite();
    let first = place.json(&["lock", "acquire", KEY, "--request-id", "job-7"]);
    let again = place.json(&["lock", "acquire", KEY, "--request-id", "job-7"]);
    assert_eq!(again["outcome"], "granted");
    assert_eq!((&again["fence"], &again["token"]), (&first["fence"], &first["token"]));
    place.run(&["lock", "acquire", KEY, "--request-id", "job-8"]).expect(1);
    place.run(&["lock", "acquire", KEY, "--request-id", "no spaces"]).expect(4);
}

#[test]
fn a_lease_that_has_run_out_is_free_and_its_old_holder_touches_nothing() {
    let place = Place::sqlite();
    let old = place.json(&["lock", "acquire", KEY, "--ttl", "1s"]);
    place.run(&["lock", "wait", KEY]).expect(0);
    let mut other = place.command(&["--json", "lock", "acquire", KEY]);
    other.env("XDG_STATE_HOME", place.path("other"));
    let new = finish(other).expect(0).json();
    assert!(fence(&new) > fence(&old));
    place.run(&["lock", "release", KEY]).expect(1);
    let mut late = place.command(&["lock", "release", KEY]);
    late.env("BELL_SESSION", old["token"].as_str().unwrap());
    assert_ne!(finish(late).code, 0);
    assert_eq!(place.show(KEY)["fence"], new["fence"]);
}

#[test]
fn what_nobody_released_is_cleared_away_in_time() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", "k:forgotten", "--ttl", "1s"]).expect(0);
    place.run(&["lock", "acquire", "k:kept"]).expect(0);
    place.run(&["lock", "wait", "k:forgotten"]).expect(0);
    let tokens = || std::fs::read_dir(place.path("state/bell/sessions")).unwrap().count();
    assert_eq!(tokens(), 2);
    // One command in 32 clears away, and what it finds is given a few seconds; so this ends.
    while tokens() > 1 {
        place.run(&["lock", "acquire", "k:x"]).expect(0);
        place.run(&["lock", "release", "k:x"]).expect(0);
    }
    place.run(&["lock", "release", "k:kept"]).expect(0);
}

#[test]
fn the_token_is_in_the_json_answer_to_acquire_and_nowhere_else() {
    let place = Place::sqlite();
    let token = place.json(&["lock", "acquire", KEY])["token"].as_str().unwrap().to_owned();
    let secret = token.split_once('.').unwrap().1;
    let all: [&[&str]; 5] = [
        &["lock", "show", KEY],
        &["--json", "lock", "list"],
        &["--json", "lock", "renew", KEY],
        &["--json", "lock", "acquire", KEY],
        &["--json", "lock", "release", KEY],
    ];
    for arguments in all {
        let mut command = place.command(arguments);
        command.env("BELL_LOG", "trace");
        let ran = finish(command);
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{arguments:?}");
    }
    let plain = place.run(&["lock", "acquire", KEY]).expect(0);
    assert!(plain.out.lines().count() == 1 && plain.out.len() < 100, "{plain:?}");
}
