//! The command on etcd, if it was built with it; and the refusal, if it was not.
//!
//! Whether it was is a feature of `bell-locks` that any other crate of the same build may switch on, so it is
//! asked at run time: of the library that the command was built with.

mod support;

use bell_e2e::Etcd;
use support::Place;

const PASSWORD: &str = "hunter2";

fn at(url: String) -> Place {
    Place { url, ..Place::sqlite() }
}

/// A member and a place with a store on it. `None`: built without etcd, and that is what the command says.
fn on_server() -> Option<(Etcd, Place)> {
    if !bell_locks::open::is_built_in("etcd") {
        is_refused_with_the_command_that_builds_it();
        return None;
    }
    let server = Etcd::start();
    let place = at(server.url("bell"));
    Some((server, place))
}

fn is_refused_with_the_command_that_builds_it() {
    let place = at(format!("etcd://ann:{PASSWORD}@127.0.0.1/bell"));
    for arguments in [&["lock", "acquire", "deploy://api"][..], &["lock", "list"], &["store", "info"]] {
        let plain = place.run(arguments).expect(4);
        assert!(plain.err.starts_with("bell: invalid: could not use etcd: "), "{plain:?}");
        assert!(plain.err.contains("cargo build -p bell-cli --features etcd"), "{plain:?}");
        let json = place.run(&[&["--json"], arguments].concat()).expect(4);
        assert_eq!(json.json()["outcome"], "invalid");
        assert!(!format!("{plain:?}{json:?}").contains(PASSWORD), "{plain:?} {json:?}");
    }
}

#[test]
fn a_lock_is_taken_and_given_back() {
    let Some((_server, place)) = on_server() else { return };
    for (format, key) in [(&["--json"][..], "deploy://api"), (&[], "deploy://web")] {
        for (arguments, code) in [
            (&["lock", "acquire", key][..], 0),
            (&["lock", "acquire", key], 1),
            (&["lock", "show", key], 0),
            (&["lock", "list"], 0),
            (&["lock", "release", key], 0),
            (&["lock", "acquire", "no key"], 4),
        ] {
            place.run(&[format, arguments].concat()).expect(code);
        }
    }
    let info = place.json(&["store", "info"]);
    assert_eq!((&info["info"]["scheme"], &info["info"]["scope"]), (&"etcd".into(), &"distributed".into()));
    place.run(&["store", "raise-epoch", "--yes"]).expect(4);
}

#[test]
fn a_fence_rises_from_one_command_to_the_next_over_a_restart_of_the_server() {
    let Some((mut server, place)) = on_server() else { return };
    let before = place.json(&["lock", "acquire", "deploy://api"])["fence"].as_u64().unwrap();
    place.run(&["lock", "release", "deploy://api"]).expect(0);
    server.kill(0);
    server.restart(0);
    let after = place.json(&["lock", "acquire", "deploy://api"])["fence"].as_u64().unwrap();
    assert!(after > before, "{after} after {before}");
}

#[test]
fn where_nobody_answers_nothing_is_granted_and_no_password_is_shown() {
    let Some((mut server, place)) = on_server() else { return };
    server.kill(0);
    let url = place.url.replacen("etcd://", &format!("etcd://ann:{PASSWORD}@"), 1);
    let ran = Place { url, ..place }.run(&["--json", "lock", "acquire", "deploy://api"]).expect(5);
    assert!(!format!("{ran:?}").contains(PASSWORD), "{ran:?}");
}
