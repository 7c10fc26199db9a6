//! How a fleet stands, and what a daemon says when it is ready.

use std::fs;

use serde_json::Value;

use crate::fleet::WAIT;
use crate::support::{Place, eventually, start};

#[test]
fn everything_that_stands_is_shown_agents_queues_fires_and_locks() {
    let place = Place::sqlite();
    place.write("config.toml", "scale = 5\n");
    let locks = "locks = [\"deploy://api\"]\nschedule = \"0 10 * * *\"\nworkQueueSize = 7";
    place.agent("worker", WAIT, locks);
    place.agent("off", "true", "scale = 0");
    let daemon = place.up();
    place.ask("worker");
    eventually("it runs", || place.lines("up").len() == 1);
    place.ask("worker");
    let stat = place.json(&["stat"]);
    assert_eq!(
        (&stat["running"], &stat["scale"], &stat["waiting"]),
        (&1.into(), &5.into(), &1.into()),
        "{stat}"
    );
    let worker = &stat["agents"][1];
    assert_eq!((&worker["waiting"], &worker["queue_size"]), (&1.into(), &7.into()), "{stat}");
    assert_eq!(worker["fires"].as_array().unwrap().len(), 5);
    assert_eq!(worker["runs"][0], place.lines("up")[0].as_str());
    let locks = stat["locks"].as_array().unwrap();
    assert_eq!(locks.len(), 1, "what is Bellwether's own is not shown: {stat}");
    assert_eq!((&locks[0]["key"], &locks[0]["run"]), (&"deploy://api".into(), &worker["runs"][0]));
    let plain = place.run(&["stat", "worker"]).expect(0).out;
    assert_eq!(plain.lines().filter(|line| line.starts_with("fires ")).count(), 5, "{plain}");
    assert!(plain.contains("lock deploy://api held by "), "{plain}");
    assert!(place.run(&["stat"]).expect(0).out.contains("disabled: its scale is 0"));
    assert!(place.run(&["stat", "wroker"]).expect(2).err.contains("did you mean worker?"));
    fs::write(place.path("go"), "").unwrap();
    daemon.stop();
}

#[test]
fn the_banner_is_talk_and_readiness_is_data() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"0 10 * * *\"");
    place.agent("held", "true", "");
    place.agent("off", "true", "scale = 0");
    place.run(&["pause", "held", "--reason", "lunch"]).expect(0);
    let mut daemon = place.start(&["up"]);
    assert_eq!(daemon.line(), "ready");
    let ran = daemon.stop();
    assert!(ran.out.is_empty(), "{ran:?}");
    let expected = [
        "survives a power cut",
        "next at 20",
        "paused: lunch",
        "disabled: its scale is 0",
        "bell logs -f AGENT",
        "bell stop",
        "stopped: 0 jobs cleared",
    ];
    for words in expected {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}

#[test]
fn with_json_each_event_is_one_object() {
    let place = Place::sqlite();
    place.agent("worker", "true", "schedule = \"0 10 * * *\"");
    let mut daemon = start(place.command(&["--json", "up"]));
    let ready: Value = serde_json::from_str(&daemon.line()).unwrap();
    assert_eq!((&ready["event"], &ready["agents"][0]), (&"ready".into(), &"worker".into()));
    assert!(ready["next"][0].is_string() && ready["logs"].is_string(), "{ready}");
    let ran = daemon.stop();
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["stopping", "stopped"]);
}

#[test]
fn jobs_whose_agent_is_gone_are_counted_and_need_an_operator() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    place.agent("gone", "true", "");
    for agent in ["gone", "gone", "worker"] {
        place.ask(agent);
    }
    fs::remove_dir_all(place.path("agents/gone")).unwrap();
    let stat = place.json(&["stat"]);
    assert_eq!(stat["waiting"], 3, "{stat}");
    let attention = &stat["attention"][0];
    assert_eq!((&attention["kind"], &attention["subject"]), (&"jobs_without_agent".into(), &"gone".into()));
    let plain = place.run(&["stat"]).expect(0).out;
    assert!(plain.contains("gone: 2 jobs wait for an agent that the project does not have"), "{plain}");
}

#[test]
fn a_run_whose_lock_an_operator_broke_ends_with_who_broke_it_and_why() {
    let place = Place::sqlite();
    place.agent("worker", WAIT, "locks = [\"deploy://api\"]");
    let daemon = place.up();
    place.ask("worker");
    eventually("it runs", || place.lines("up").len() == 1);
    place.run(&["lock", "break", "deploy://api", "--reason", "it hangs", "--yes"]).expect(0);
    eventually("it ended", || place.ends().contains(&"broken".to_owned()));
    let run = place.runs().into_iter().find(|run| run["end"]["end"] == "broken").unwrap();
    let reason = run["end"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("uid ") && reason.ends_with("broke deploy://api: it hangs"), "{reason}");
    fs::write(place.path("go"), "").unwrap();
    daemon.stop();
}
