//! Files of a project that can't be used: `bell up` fails closed, and a daemon that runs keeps the last good version.

use std::fs;

use crate::support::{Place, eventually, finish, start};

#[test]
fn a_broken_config_is_refused_with_every_problem_and_leaves_nothing_behind() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.write("config.toml", "scale = \"1\"\nstor = \"redis://db.example\"\n");
    let refused = place.start(&["up"]).end().expect(4);
    for words in ["config.toml:1:", "config.toml:2:1: error", "did you mean \"store\"?"] {
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    }
    let lines: Vec<&str> = refused.err.lines().collect();
    assert!(
        lines.iter().filter(|line| line.starts_with("config.toml:")).count() == 2,
        "a line each: {lines:?}"
    );
    assert!(!place.path(".bell").exists() && !place.path("bell.db").exists(), "nothing was made");
    let refused = place.start(&["--json", "up"]).end().expect(4);
    assert_eq!(refused.json()["outcome"], "invalid");
}

#[test]
fn a_broken_agent_does_not_run_and_is_shown_in_full_while_the_others_run() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.agent("wrong", "true", "shcedule = \"* * * * *\"");
    let daemon = place.up();
    assert_eq!(place.run_agent("worker")["fate"]["end"]["end"], "completed");
    place.run(&["run", "wrong"]).expect(2);
    let stat = place.json(&["stat"]);
    let shown = &stat["attention"][0];
    let (kind, subject) = ("broken_file".into(), "agents/wrong/config.toml:1:1".into());
    assert_eq!((&shown["kind"], &shown["subject"]), (&kind, &subject), "{stat}");
    assert_eq!(stat["attention"].as_array().unwrap().len(), 1, "{stat}");
    let plain = place.run(&["stat"]).expect(0).out;
    assert!(plain.contains("agents/wrong/config.toml:1:1: "), "{plain}");
    daemon.stop();
    let mut again = place.start(&["up"]);
    assert_eq!(again.line(), "ready");
    let banner = again.stop().err;
    assert!(banner.contains("agents/wrong/config.toml:1:1: error: "), "{banner}");
    assert!(banner.contains("did you mean \"schedule\"?"), "{banner}");
}

#[test]
fn what_breaks_while_the_daemon_runs_stays_as_it_was_and_is_shown() {
    let place = Place::sqlite();
    place.write("config.toml", "scale = 1\n");
    place.agent("worker", "echo good >> out", "");
    // Without BELL_STORE in the environment the commands ask the daemon, which has the last good version.
    let ask = |arguments: &[&str]| {
        let mut command = place.command(&[&["--json"], arguments].concat());
        command.env_remove("BELL_STORE");
        command
    };
    let mut daemon = start(ask(&["up"]));
    assert!(daemon.line().contains("\"ready\""));
    place.write("config.toml", "scale = \"9\"\nstor = \"redis://db.example\"\n");
    place.write("agents/worker/config.toml", "grce = 1\n");
    let stat = || finish(ask(&["stat"])).json();
    eventually("both are seen to be broken", || {
        stat()["attention"].as_array().is_some_and(|broken| broken.len() == 3)
    });
    assert_eq!((&stat()["scale"], &stat()["agents"][0]["agent"]), (&1.into(), &"worker".into()));
    let ran = finish(ask(&["run", "worker", "--wait"])).json();
    assert_eq!(ran["fate"]["end"]["end"], "completed", "{ran}");
    assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "good\n");
    daemon.stop();
}
