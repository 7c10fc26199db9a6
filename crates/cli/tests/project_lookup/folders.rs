//! The same project in every folder of it: every command, from there, from above it, and from a stranger's.

use std::fs;

use serde_json::Value;

use crate::fixture::{Fixture, INSIDE, KEY};
use crate::support::finish;

/// What operators ask of a project, with nothing in it yet, and whether it is refused from outside of any project.
const LOOKING: &[(&[&str], Outside)] = &[
    (&["stat"], Outside::Refused),
    (&["runs"], Outside::Refused),
    (&["history"], Outside::Refused),
    (&["events"], Outside::Refused),
    (&["jobs", "list"], Outside::Refused),
    (&["jobs", "undone"], Outside::Refused),
    (&["jobs", "replay", "--all", "--dry-run"], Outside::Refused),
    (&["jobs", "cancel", "x"], Outside::Refused),
    (&["jobs", "clear", "worker"], Outside::Refused),
    (&["keys", "list"], Outside::Refused),
    (&["keys", "revoke", "x"], Outside::Refused),
    (&["audit"], Outside::Refused),
    (&["audit", "verify"], Outside::Refused),
    (&["webhook", "ls"], Outside::Refused),
    (&["webhook", "show", "x"], Outside::Refused),
    (&["webhook", "replay", "x"], Outside::Refused),
    (&["why", "worker"], Outside::Refused),
    (&["logs"], Outside::Refused),
    (&["kill", "worker-1"], Outside::Refused),
    (&["stop"], Outside::Refused),
    (&["reload"], Outside::Refused),
    (&["why", KEY], Outside::Works),
    (&["check"], Outside::Works),
    (&["config", "show"], Outside::Works),
    (&["doctor"], Outside::Works),
    (&["store", "info"], Outside::Works),
    (&["store", "raise-epoch"], Outside::Works),
    (&["lock", "list"], Outside::Works),
    (&["lock", "show", KEY], Outside::Works),
    (&["lock", "wait", KEY], Outside::Works),
    (&["lock", "watch"], Outside::Works),
    (&["lock", "renew", KEY], Outside::Works),
    (&["lock", "release", KEY], Outside::Works),
    (&["lock", "break", KEY, "--reason", "x", "--yes"], Outside::Works),
];

/// What operators do to a project.
const ACTING: &[&[&str]] = &[
    &["pause"],
    &["resume"],
    &["scale", "worker", "2"],
    &["run", "worker"],
    &["keys", "add", "laptop"],
    &["mcp"],
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Refused,
    Works,
}

#[test]
fn looking_creates_nothing_anywhere_and_outside_of_a_project_it_is_refused() {
    let fixture = Fixture::new();
    let before = fixture.everything();
    for (arguments, outside) in LOOKING {
        for from in INSIDE {
            let ran = fixture.run(from, arguments);
            assert!(!matches!(ran.code, 3 | 9), "{from}: {arguments:?}: {ran:?}");
            assert!(!ran.err.contains("could not find a project"), "{from}: {arguments:?}: {ran:?}");
        }
        let ran = fixture.run("parent", arguments);
        let is_refused = ran.err.contains("could not find a project in ");
        assert_eq!(is_refused, *outside == Outside::Refused, "{arguments:?}: {ran:?}");
        if is_refused {
            assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
            assert!(ran.err.contains("hint: ") && ran.err.contains("bell init"), "{arguments:?}: {ran:?}");
        }
        let ran = fixture.run("stranger", arguments).expect(3);
        assert!(ran.err.contains("belongs to another user (uid 65534)"), "{arguments:?}: {ran:?}");
        assert_eq!(fixture.everything(), before, "{arguments:?}");
    }
}

#[test]
fn acting_outside_of_a_project_and_in_a_strangers_is_refused_and_creates_nothing() {
    let fixture = Fixture::new();
    let before = fixture.everything();
    for arguments in ACTING {
        let ran = fixture.run("parent", arguments);
        assert!(matches!(ran.code, 2 | 6), "{arguments:?}: {ran:?}");
        fixture.run("stranger", arguments).expect(3);
    }
    for arguments in [&["up"][..], &["init"], &["lock", "acquire", KEY], &["lock", "run", KEY, "--", "true"]]
    {
        fixture.run("stranger", arguments).expect(3);
    }
    assert_eq!(fixture.everything(), before);
}

#[test]
fn every_folder_of_a_project_means_its_one_store() {
    let fixture = Fixture::new();
    let url = format!("sqlite:{}", fixture.path("fleet/.bell/bell.db").display());
    for from in INSIDE {
        let info = fixture.json(from, &["store", "info"]);
        assert_eq!((&info["store"], &info["chosen_by"]), (&url.as_str().into(), &"project".into()), "{from}");
        assert_eq!(info["project"], fixture.path("fleet").to_str().unwrap());
        assert_eq!(info["exists"], false);
    }
    for (at, from) in INSIDE.into_iter().enumerate() {
        fixture.run(from, &["lock", "acquire", &format!("job:{at}")]).expect(0);
        for (other, arguments) in INSIDE.into_iter().zip(ACTING) {
            fixture.run(other, arguments).expect(0);
        }
        fixture.run("fleet", &["keys", "add", &format!("key-{at}")]).expect(0);
    }
    for from in INSIDE {
        assert_eq!(fixture.json(from, &["lock", "list"])["locks"].as_array().unwrap().len(), 4, "{from}");
        assert_eq!(fixture.json(from, &["jobs", "list"])["queues"][0]["waiting"], 4, "{from}");
        assert_eq!(fixture.json(from, &["keys", "list"])["keys"].as_array().unwrap().len(), 4, "{from}");
    }
    let states: Vec<_> = fixture.everything().into_iter().filter(|path| path.ends_with(".bell")).collect();
    assert_eq!(states, [fixture.path("fleet/.bell"), fixture.path("stranger/.bell")]);
}

#[test]
fn a_pause_from_the_folder_of_the_agents_pauses_the_fleet() {
    let fixture = Fixture::new();
    fixture.run("fleet/agents", &["pause", "--reason", "lunch"]).expect(0);
    assert_eq!(fixture.json("fleet", &["stat"])["paused"], "lunch");
    let daemon = fixture.up("fleet", &[]);
    fixture.run("fleet/agents", &["resume"]).expect(0);
    assert_eq!(fixture.json("fleet", &["stat"])["paused"], Value::Null);
    fixture.run("fleet/agents", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn no_second_daemon_runs_the_same_agents() {
    let fixture = Fixture::new();
    let daemon = fixture.up("fleet/agents", &[]);
    assert!(fixture.path("fleet/.bell/daemon.json").exists());
    for (from, arguments) in [
        ("fleet", &["up"][..]),
        ("fleet/agents", &["up"]),
        ("fleet/agents/worker", &["up"]),
        ("parent", &["up", "../fleet/agents"]),
    ] {
        let ran = fixture.run(from, arguments).expect(1);
        assert!(ran.err.contains("a daemon of this machine runs the project"), "{from}: {ran:?}");
    }
    fixture.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn the_agents_of_a_project_do_not_become_a_project_of_their_own() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("fleet/config.toml")).unwrap();
    let ran = fixture.run("fleet/agents", &["up"]).expect(4);
    assert!(ran.err.contains("it is a folder for the agents of one"), "{ran:?}");
    fs::write(fixture.path("fleet/config.toml"), "").unwrap();
    for arguments in [&["init"][..], &["init", "worker"]] {
        let ran = fixture.run("fleet/agents", arguments).expect(4);
        assert!(ran.err.contains("belongs to the project in"), "{ran:?}");
    }
    // Earlier versions created it.
    fs::create_dir(fixture.path("fleet/agents/.bell")).unwrap();
    let ran = fixture.run("fleet/agents", &["stat"]).expect(4);
    assert!(
        ran.err.contains("its agents belong to the project in") && ran.err.contains("remove "),
        "{ran:?}"
    );
    fixture.run("fleet", &["stat"]).expect(0);
}

#[test]
fn what_is_named_is_used_and_never_replaced_by_something_near() {
    let fixture = Fixture::new();
    fixture.project("other", "");
    let project = |from: &str, arguments: &[&str], variable: Option<&str>| {
        let mut command = fixture.command(from, &[&["--json", "store", "info"], arguments].concat());
        variable.map(|folder| command.env("BELL_PROJECT", folder));
        finish(command).expect(0).json()["project"].clone()
    };
    let (fleet, other) = (fixture.path("fleet"), fixture.path("other"));
    assert_eq!(project("other", &["--project", "../fleet/agents"], None), fleet.to_str().unwrap());
    assert_eq!(project("fleet", &[], other.to_str()), other.to_str().unwrap());
    assert_eq!(project("parent", &["--project", "../fleet"], other.to_str()), fleet.to_str().unwrap());
    for arguments in [&["stat"][..], &["lock", "acquire", KEY], &["store", "info"], &["doctor"]] {
        let mut command = fixture.command("fleet", arguments);
        let ran = finish({
            command.env("BELL_PROJECT", fixture.path("parent"));
            command
        });
        assert!(ran.expect(2).err.contains("(set by BELL_PROJECT)"), "{arguments:?}");
        fixture.run("fleet", &[arguments, &["--project", "../parent"]].concat()).expect(2);
        fixture.run("fleet", &[arguments, &["--project", "nowhere"]].concat()).expect(4);
    }
}

#[test]
fn a_run_keeps_to_its_supervisor_wherever_its_agent_works() {
    let fixture = Fixture::new();
    let script = "#!/bin/sh\ncd / && bell lock acquire job:from-root >/dev/null || exit 1\n\
                  mkdir -p \"$TMPDIR/deep\" && cd \"$TMPDIR/deep\" && bell lock acquire job:from-deep >/dev/null || exit 2\n\
                  cp /dev/null \"$OLDPWD/none\" 2>/dev/null; exit 0\n";
    fs::write(fixture.path("fleet/agents/worker/run"), script).unwrap();
    let daemon = fixture.up("fleet", &[]);
    let ran = fixture.json("fleet", &["run", "worker", "--wait"]);
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{ran}");
    fixture.run("fleet", &["stop"]).expect(0);
    daemon.end().expect(0);
}

#[test]
fn agents_of_their_own_below_a_project_are_run_when_it_is_clear_that_they_are_meant() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("fleet/.bell")).unwrap();
    fixture.project("fleet/part", "");
    let daemon = fixture.up("fleet/part", &[]);
    fixture.run("fleet/part", &["stop"]).expect(0);
    daemon.end().expect(0);
    fs::remove_dir_all(fixture.path("fleet/part/.bell")).unwrap();
    fs::remove_file(fixture.path("fleet/part/config.toml")).unwrap();
    for (from, arguments) in [("fleet/part", &["up"][..]), ("fleet", &["up", "part"])] {
        let ran = fixture.run(from, arguments).expect(4);
        assert!(
            ran.err.contains("has agents of its own") && ran.err.contains("put a config.toml"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_new_project_is_begun_here_whatever_the_environment_is_about() {
    let fixture = Fixture::new();
    let mut command = fixture.command("parent", &["init"]);
    command.env("BELL_PROJECT", fixture.path("fleet"));
    finish(command).expect(0);
    assert!(fixture.path("parent/config.toml").exists());
}

#[test]
fn a_second_state_folder_of_the_same_agents_is_warned_of() {
    let fixture = Fixture::new();
    assert!(!fixture.run("fleet", &["check"]).out.contains("second state folder"));
    fs::create_dir(fixture.path("fleet/agents/.bell")).unwrap();
    let checked = fixture.run("fleet", &["check"]).expect(0).out;
    assert!(
        checked.contains("agents/.bell: warning: it is a second state folder of the same agents"),
        "{checked}"
    );
}
