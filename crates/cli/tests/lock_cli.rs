//! The commands about locks, with the real binary: answers, exit codes, and which store they are about.

mod support;

use serde_json::Value;
use support::{Place, finish};

const KEY: &str = "deploy://api-prod";

fn fence(answer: &Value) -> u64 {
    answer["fence"].as_u64().unwrap_or_else(|| panic!("no fence in {answer}"))
}

#[test]
fn a_grant_answers_with_every_field() {
    for place in Place::each() {
        let answer = place.json(&["lock", "acquire", KEY, "--ttl", "90s", "--label", "ci"]);
        assert_eq!(answer["outcome"], "granted");
        assert_eq!(answer["key"], KEY);
        assert!(fence(&answer) > 0);
        assert_eq!(answer["holder"]["label"], "ci");
        assert_eq!(answer["holder"]["mode"], "exclusive");
        assert_eq!(answer["holder"]["pid"], std::process::id());
        assert_eq!(answer["ttl_ms"], 90_000);
        assert!(answer["token"].as_str().unwrap().len() > 64);
        assert_eq!(answer["store"], place.url);
    }
}

#[test]
fn two_spellings_are_one_lock_and_the_second_is_told_who_has_it() {
    for place in Place::each() {
        let granted = place.json(&["lock", "acquire", "Deploy://API-prod/", "--label", "ci"]);
        let ran = place.run(&["--json", "lock", "acquire", KEY]).expect(1);
        let busy = ran.json();
        assert_eq!((&busy["outcome"], &busy["key"]), (&"busy".into(), &KEY.into()));
        assert_eq!(busy["fence"], granted["fence"]);
        assert_eq!(busy["holder"]["label"], "ci");
        assert!(busy.get("token").is_none());
        let plain = place.run(&["lock", "acquire", KEY]).expect(1);
        assert!(plain.err.starts_with("bell: busy: deploy://api-prod is held by ci (pid "), "{plain:?}");
        assert!(plain.err.contains("\nhint: ") && plain.out.is_empty(), "{plain:?}");
    }
}

#[test]
fn what_was_taken_is_given_back_once() {
    for place in Place::each() {
        place.run(&["lock", "acquire", KEY]).expect(0);
        let released = place.json(&["lock", "release", KEY]);
        assert_eq!(released["outcome"], "released");
        assert!(place.is_free(KEY));
        let again = place.run(&["--json", "lock", "release", KEY]).expect(2);
        assert_eq!(again.json()["outcome"], "not_held");
        assert!(std::fs::read_dir(place.path("state/bell/sessions")).unwrap().next().is_none());
    }
}

#[test]
fn a_renewal_lasts_from_now_and_may_change_the_ttl() {
    for place in Place::each() {
        let granted = place.json(&["lock", "acquire", KEY, "--ttl", "60s"]);
        let renewed = place.json(&["lock", "renew", KEY, "--ttl", "2h"]);
        assert_eq!(renewed["outcome"], "renewed");
        assert_eq!(renewed["fence"], granted["fence"]);
        assert_eq!(renewed["ttl_ms"], 7_200_000);
        assert!(place.show(KEY)["holder"]["left_ms"].as_u64().unwrap() > 3_600_000);
        let free = place.run(&["--json", "lock", "renew", "deploy://other"]).expect(2);
        assert_eq!(free.json()["outcome"], "not_held");
    }
}

#[test]
fn several_keys_are_taken_together_or_not_at_all() {
    for place in Place::each() {
        place.run(&["lock", "acquire", "k:b"]).expect(0);
        let busy = place.run(&["--json", "lock", "acquire", "k:c", "k:b", "k:a"]).expect(1).json();
        assert_eq!(busy["key"], "k:b");
        assert!(place.is_free("k:a") && place.is_free("k:c"));
        place.run(&["lock", "release", "k:b"]).expect(0);
        let granted = place.json(&["lock", "acquire", "k:c", "k:b", "k:a"]);
        assert_eq!(granted["key"], "k:c", "the first as it was asked for");
        let keys: Vec<&str> =
            granted["keys"].as_array().unwrap().iter().map(|k| k["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["k:a", "k:b", "k:c"]);
        for key in keys {
            place.run(&["lock", "release", key]).expect(0);
        }
    }
}

#[test]
fn shared_leases_stand_together_and_are_told_apart_by_their_fences() {
    let place = Place::sqlite();
    let first = fence(&place.json(&["lock", "acquire", KEY, "--shared"]));
    let second = fence(&place.json(&["lock", "acquire", KEY, "--shared"]));
    place.run(&["lock", "acquire", KEY]).expect(1);
    assert_eq!(place.show(KEY)["shared_with"].as_array().unwrap().len(), 1);
    let which = place.run(&["lock", "release", KEY]).expect(4);
    assert!(which.err.contains(&format!("--fence: {first}, {second}")), "{which:?}");
    place.run(&["lock", "release", KEY, "--fence", &first.to_string()]).expect(0);
    assert_eq!(fence(&place.show(KEY)), second);
    place.run(&["lock", "release", KEY]).expect(0);
}

#[test]
fn breaking_shows_first_and_does_it_when_told() {
    for place in Place::each() {
        let old = fence(&place.json(&["lock", "acquire", KEY, "--label", "stuck"]));
        let shown = place.run(&["lock", "break", KEY, "--reason", "it is stuck"]).expect(0);
        assert!(shown.out.contains("stuck") && shown.out.contains("--yes"), "{shown:?}");
        let rehearsed = place.json(&["lock", "break", KEY, "--reason", "it is stuck"]);
        assert_eq!(rehearsed["outcome"], "held");
        assert!(!place.is_free(KEY));
        let broken = place.json(&["lock", "break", KEY, "--reason", "it is stuck", "--yes"]);
        assert_eq!((&broken["outcome"], &broken["holder"]["label"]), (&"broken".into(), &"stuck".into()));
        assert!(fence(&place.json(&["lock", "acquire", KEY])) > old);
        place.run(&["lock", "release", KEY]).expect(0);
        place.run(&["lock", "break", KEY, "--reason", "again", "--yes"]).expect(2);
        place.run(&["lock", "break", KEY, "--reason", " "]).expect(4);
    }
}

#[test]
fn renewing_a_lock_that_was_broken_says_that_it_is_lost_and_why() {
    for place in Place::each() {
        place.json(&["lock", "acquire", KEY]);
        place.run(&["lock", "break", KEY, "--reason", "it is stuck", "--yes"]).expect(0);
        let lost = place.run(&["--json", "lock", "renew", KEY]).expect(7).json();
        assert_eq!(lost["outcome"], "lost");
        assert_eq!(lost["message"], "an operator broke the lock: it is stuck");
    }
}

#[test]
fn a_list_has_what_starts_with_the_prefix() {
    for place in Place::each() {
        for key in ["deploy://a", "deploy://b", "job:c"] {
            place.run(&["lock", "acquire", key]).expect(0);
        }
        let listed = place.json(&["lock", "list", "Deploy://"]);
        let keys: Vec<&Value> = listed["locks"].as_array().unwrap().iter().map(|lock| &lock["key"]).collect();
        assert_eq!(listed["outcome"], "listed");
        assert_eq!(keys, ["deploy://a", "deploy://b"]);
        assert_eq!(place.json(&["lock", "list", "job:d"])["locks"], serde_json::json!([]));
        let table = place.run(&["lock", "list"]).expect(0).out;
        assert!(table.starts_with("KEY") && table.lines().count() == 4, "{table}");
    }
}

#[test]
fn other_peoples_words_can_not_move_the_cursor() {
    let place = Place::sqlite();
    place.run(&["lock", "acquire", KEY, "--label", "a\u{1b}[2Jb\u{202e}c\u{9b}d"]).expect(0);
    for arguments in [
        vec!["lock", "list"],
        vec!["lock", "show", KEY],
        vec!["lock", "acquire", KEY],
        vec!["--json", "lock", "list"],
    ] {
        let ran = place.run(&arguments);
        let shown = format!("{}{}", ran.out, ran.err);
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{shown:?}");
    }
    assert_eq!(place.show(KEY)["holder"]["label"], "a\u{1b}[2Jb\u{202e}c\u{9b}d");
}

#[test]
fn the_store_is_the_given_one_then_the_environments_then_the_projects_then_the_users() {
    let place = Place::sqlite();
    std::fs::create_dir_all(place.path("project/.bell")).unwrap();
    std::fs::create_dir_all(place.path("project/deep/down")).unwrap();
    let store = |from: &str, environment: Option<&str>, given: Option<&str>| {
        let mut command = place.command(&["--json", "lock", "acquire", KEY]);
        command.current_dir(place.path(from)).env_remove("BELL_STORE");
        environment.map(|url| command.env("BELL_STORE", url));
        given.map(|url| command.args(["--store", url]));
        finish(command).expect(0).json()["store"].as_str().unwrap().to_owned()
    };
    let given = format!("sqlite:{}", place.path("given.db").display());
    let environment = format!("file:{}", place.path("environment").display());
    let real = place.folder.path().canonicalize().unwrap();
    assert_eq!(store("project", Some(&environment), Some(&given)), given);
    assert_eq!(store("project", Some(&environment), None), environment);
    assert_eq!(
        store("project/deep/down", None, None),
        format!("sqlite:{}/project/.bell/bell.db", real.display())
    );
    assert_eq!(
        store(".", None, None),
        format!("sqlite:{}/state/bell/bell.db", place.folder.path().display())
    );
}
