//! Stopping the daemon of a project.

use std::fs;

use crate::fleet::WAIT;
use crate::support::{Place, eventually};

#[test]
fn a_daemon_is_stopped_when_what_runs_has_finished_and_only_then() {
    let place = Place::sqlite();
    place.agent("worker", WAIT, "");
    let daemon = place.up();
    place.ask("worker");
    eventually("it runs", || place.lines("up").len() == 1);
    place.ask("worker");
    let mut stopping = place.start(&["stop"]);
    eventually("what waited is cleared", || place.waiting("worker") == 0);
    assert_eq!(place.ends(), ["running"], "it may finish");
    fs::write(place.path("go"), "").unwrap();
    let pid = daemon.pid();
    assert_eq!(stopping.line(), format!("stopped the daemon (pid {pid})"));
    stopping.end().expect(0);
    daemon.end().expect(0);
    assert_eq!(place.ends(), ["completed"]);
    assert_eq!(place.undone().len(), 1, "the other one can be replayed");
}

#[test]
fn now_or_a_second_stop_ends_what_runs() {
    let place = Place::sqlite();
    place.agent("worker", WAIT, "grace = \"1s\"");
    for second in [&["stop", "--now"][..], &["stop"]] {
        let _ = fs::remove_file(place.path("up"));
        let mut daemon = place.up();
        place.ask("worker");
        eventually("it runs", || place.lines("up").len() == 1);
        let first = (second.len() == 1).then(|| place.start(&["stop"]));
        if first.is_some() {
            assert!(daemon.line().contains("stopping"), "the first one was heard");
        }
        place.run(second).expect(0);
        if let Some(first) = first {
            first.end().expect(0);
        }
        daemon.end().expect(0);
        assert_eq!(place.ends()[0], "interrupted");
    }
}

#[test]
fn without_a_daemon_there_is_nothing_to_stop_and_nobody_else_is_signalled() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.run(&["stop"]).expect(2);
    let daemon = place.up();
    daemon.kill();
    let ran = place.run(&["--json", "stop"]).expect(2);
    assert_eq!(ran.json()["outcome"], "not_found");
    // Its number may be given to another: this process, say.
    let path = place.path(".bell/daemon.json");
    let mut written: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    written["pid"] = std::process::id().into();
    fs::write(&path, written.to_string()).unwrap();
    place.run(&["stop"]).expect(2);
}
