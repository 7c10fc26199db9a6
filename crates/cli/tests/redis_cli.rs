//! The command on a Redis server.

mod support;

use bell_e2e::Redis;
use support::Place;

const PASSWORD: &str = "hunter2";

/// A server that keeps its data over a crash but does not sync every commit, and a place with a store on it.
fn on_server() -> (Redis, Place) {
    let server =
        Redis::start_with(&["--requirepass", PASSWORD, "--appendonly", "yes", "--appendfsync", "no"]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port());
    (server, Place { url, ..Place::sqlite() })
}

#[test]
fn a_lock_is_taken_and_given_back_and_no_answer_shows_the_password() {
    let (_server, place) = on_server();
    for (format, key) in [(&["--json"][..], "deploy://api"), (&[], "deploy://web")] {
        for (arguments, code) in [
            (&["lock", "acquire", key][..], 0),
            (&["lock", "acquire", key], 1),
            (&["lock", "show", key], 0),
            (&["lock", "list"], 0),
            (&["store", "info"], 0),
            (&["lock", "release", key], 0),
            (&["lock", "acquire", "no key"], 4),
        ] {
            let ran = place.run(&[format, arguments].concat()).expect(code);
            assert!(!format!("{}{}", ran.out, ran.err).contains(PASSWORD), "{ran:?}");
        }
    }
}

#[test]
fn a_wrong_password_is_unauthorized_and_not_shown() {
    let (server, place) = on_server();
    let place = Place { url: format!("redis://:wrong-{PASSWORD}@127.0.0.1:{}", server.port()), ..place };
    let ran = place.run(&["--json", "lock", "acquire", "deploy://api"]).expect(3);
    assert!(!ran.out.contains(PASSWORD), "{ran:?}");
}

#[test]
fn after_a_restart_that_may_have_lost_commits_an_operator_raises_the_epoch() {
    let (mut server, place) = on_server();
    let before = place.json(&["lock", "acquire", "deploy://api"])["fence"].as_u64().unwrap();
    let sound = place.json(&["store", "raise-epoch"]);
    assert!(sound["message"].as_str().unwrap().contains("need not be raised"), "{sound}");

    server.restart();
    let refused = place.run(&["--json", "lock", "acquire", "deploy://web"]).expect(5).json();
    assert!(refused["hint"].as_str().unwrap().contains("bell store raise-epoch --yes"), "{refused}");
    let rehearsed = place.json(&["store", "raise-epoch"]);
    assert!(rehearsed["message"].as_str().unwrap().contains("may have gone back"), "{rehearsed}");
    place.run(&["lock", "acquire", "deploy://web"]).expect(5);

    let raised = place.run(&["--json", "store", "raise-epoch", "--yes"]).expect(0).json();
    assert_eq!(raised["outcome"], "written");
    let after = place.json(&["lock", "acquire", "deploy://web"])["fence"].as_u64().unwrap();
    assert!(after > before && after > raised["revision"].as_u64().unwrap(), "{after} after {before}");
}
