//! What a stop cleared is named with the way back, and dead letters are replayed in bulk.

use crate::fleet::WAIT;
use crate::support::{Place, eventually, start};

/// A project whose stop clears `count` jobs, and the words of `bell stop`.
fn cleared(count: usize) -> (Place, String) {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.run(&["pause"]).expect(0);
    let daemon = place.up();
    for _ in 0..count {
        place.ask("worker");
    }
    let stopped = place.run(&["stop"]).expect(0);
    daemon.end().expect(0);
    (place, stopped.err)
}

#[test]
fn a_stop_and_the_next_start_say_how_to_bring_back_what_was_cleared() {
    let (place, said) = cleared(2);
    let way_back =
        "cleared 2 waiting jobs from the queue; to bring back what was cleared: bell jobs replay --cleared";
    assert!(said.contains(way_back), "{said}");
    let daemon = start(place.command(&["up"]));
    eventually("it is up", || place.path(".bell/bell.sock").exists());
    let again = daemon.stop().err;
    assert!(again.contains(way_back), "{again}");
    place.run(&["jobs", "replay", "--cleared"]).expect(0);
    let mut daemon = start(place.command(&["--json", "up"]));
    let ready: serde_json::Value = serde_json::from_str(&daemon.line()).unwrap();
    assert_eq!(ready["cleared"], 0, "nothing is left to bring back: {ready}");
    daemon.stop();
}

#[test]
fn cleared_jobs_are_replayed_together_and_once() {
    let (place, _) = cleared(3);
    let dry = place.json(&["jobs", "replay", "--cleared", "--dry-run"]);
    assert_eq!((&dry["selected"], &dry["replayed"], &dry["dry_run"]), (&3.into(), &0.into(), &true.into()));
    assert_eq!(dry["jobs"].as_array().map(Vec::len), Some(3));
    assert_eq!((place.undone().len(), place.waiting("worker")), (3, 0), "a dry run does nothing");
    let done = place.json(&["jobs", "replay", "--cleared"]);
    assert_eq!((&done["replayed"], &done["agents"]["worker"]["replayed"]), (&3.into(), &3.into()));
    assert_eq!(place.waiting("worker"), 3);
    assert_eq!(place.json(&["jobs", "replay", "--cleared"])["replayed"], 0);
    let ran = place.run(&["jobs", "replay", "--all"]).expect(0);
    assert_eq!(ran.out.trim(), "replayed 0 jobs");
    place.run(&["resume"]).expect(0);
    let daemon = place.up();
    eventually("all are done, each once", || place.ends() == ["completed"; 3]);
    daemon.stop();
}

#[test]
fn a_selection_takes_only_what_it_names_also_from_a_daemon() {
    let place = Place::sqlite();
    place.agent("small", WAIT, "workQueueSize = 1");
    place.agent("other", WAIT, "");
    place.run(&["pause"]).expect(0);
    let daemon = place.up();
    let (dropped, kept) = (place.ask("small"), place.ask("small"));
    place.ask("other");
    place.run(&["jobs", "clear", "other"]).expect(0);
    place.run(&["jobs", "clear", "othr"]).expect(2);
    let selected = |arguments: &[&str]| {
        let all = [&["jobs", "replay", "--dry-run"][..], arguments].concat();
        place.json(&all)["selected"].as_u64().unwrap()
    };
    assert_eq!(selected(&["--dropped"]), 1);
    assert_eq!(selected(&["--cleared"]), 1);
    assert_eq!(selected(&["--all"]), 2);
    assert_eq!(selected(&["--all", "--agent", "other"]), 1);
    assert_eq!(selected(&["--dropped", "--agent", "other"]), 0);
    assert_eq!(selected(&["--since", "1h"]), 2);
    assert_eq!(selected(&["--since", "2030-01-01T00:00Z"]), 0);
    let full = place.run(&["--json", "jobs", "replay", "--dropped"]).expect(1).json();
    assert_eq!((&full["replayed"], &full["agents"]["small"]["queue_full"]), (&0.into(), &1.into()));
    assert_eq!(full["outcome"], "busy");
    place.run(&["jobs", "replay", "--agent", "smal"]).expect(2);
    place.run(&["jobs", "cancel", &kept]).expect(0);
    assert_eq!(place.json(&["jobs", "replay", "--dropped"])["replayed"], 1);
    assert_eq!(place.json(&["jobs", "list"])["queues"][1]["jobs"][0], dropped.as_str());
    for wrong in
        [&["jobs", "replay"][..], &["jobs", "replay", &kept, "--all"], &["jobs", "replay", "--dry-run"]]
    {
        place.run(wrong).expect(9);
    }
    daemon.stop();
}
