//! Several daemons on one store, and daemons that are killed all the time: nothing is lost, nothing runs twice, caps hold.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use bell_e2e::Redis;
use rustix::process::Signal;
use serde_json::Value;
use support::{Place, eventually};

/// Kills of the daemon in a row.
const KILLS: u64 = 100;

/// A project whose one agent writes into a ledger that it began and that it ended.
fn project(place: &Place, ledger: &Path, settings: &str) {
    let folder = place.path("agents/worker");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: worker\ndescription: A test agent.\n---\nWork.\n")
        .unwrap();
    fs::write(folder.join("config.toml"), settings).unwrap();
    let ledger = ledger.display();
    let script = format!(
        "#!/bin/sh\necho \"begin $BELL_JOB\" >> {ledger}\nsleep 0.1\necho \"end $BELL_JOB\" >> {ledger}\n"
    );
    fs::write(folder.join("run"), script).unwrap();
    fs::set_permissions(folder.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn accept(place: &Place) -> String {
    place.json(&["run", "worker"])["job"].as_str().unwrap().to_owned()
}

/// How often each job began, and how many were at it at once at most.
fn read(ledger: &Path) -> (BTreeMap<String, u32>, i32) {
    let (mut begun, mut now, mut most) = (BTreeMap::new(), 0, 0);
    for line in fs::read_to_string(ledger).unwrap_or_default().lines() {
        match line.split_once(' ') {
            Some(("begin", job)) => {
                *begun.entry(job.to_owned()).or_insert(0) += 1;
                now += 1;
            }
            Some(("end", _)) => now -= 1,
            other => panic!("{other:?} in the ledger"),
        }
        most = most.max(now);
    }
    (begun, most)
}

fn waiting_or_running(place: &Place) -> bool {
    let queues = place.json(&["queue", "list"]);
    let waits = queues["queues"].as_array().unwrap().iter().any(|queue| queue["waiting"] != 0);
    let runs = place.json(&["runs", "--limit", "1000"]);
    waits || runs["runs"].as_array().unwrap().iter().any(|run| run["end"] == Value::Null)
}

#[test]
fn two_daemons_on_one_store_share_the_work_and_the_caps() {
    let redis = Redis::start();
    let mut places = [Place::sqlite(), Place::sqlite()];
    let ledger = places[0].path("ledger.txt");
    for place in &mut places {
        place.url = redis.url("fleet");
        fs::write(place.path("config.toml"), "scale = 3\n").unwrap();
        project(place, &ledger, "scale = 5\n");
    }
    let mut daemons: Vec<_> = places.iter().map(|place| place.start(&["up"])).collect();
    for daemon in &mut daemons {
        assert!(daemon.line().starts_with("project"), "it says so when it is ready");
    }
    let jobs: Vec<String> = (0..24).map(|_| accept(&places[0])).collect();
    eventually("everything is done", || !waiting_or_running(&places[0]));
    let (begun, most) = read(&ledger);
    assert_eq!(begun.len(), jobs.len());
    assert!(jobs.iter().all(|job| begun[job] == 1), "{begun:?}");
    assert!(most <= 3, "{most} at once, and 3 may");
    let taken = |place: &Place| fs::read_dir(place.path(".bell/runs")).unwrap().count();
    assert_eq!(taken(&places[0]) + taken(&places[1]), jobs.len(), "each run is on one machine");
    for daemon in daemons {
        daemon.signal(Signal::TERM);
        daemon.end().expect(0);
    }
}

#[test]
fn a_daemon_that_was_stopped_for_longer_than_its_session_lasts_is_there_again() {
    let place = Place::sqlite();
    project(&place, &place.path("ledger.txt"), "");
    let mut daemon = place.start(&["up"]);
    daemon.line();
    assert_eq!(place.json(&["stat"])["daemons"], 1);
    daemon.pause();
    eventually("it is taken for gone", || place.json(&["stat"])["daemons"] == 0);
    daemon.signal(Signal::CONT);
    eventually("it is back", || place.json(&["stat"])["daemons"] == 1);
    assert_eq!(place.json(&["run", "worker", "--wait"])["fate"]["end"]["end"], "completed");
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
    assert_eq!(place.json(&["stat"])["daemons"], 0);
}

#[test]
fn a_daemon_that_is_killed_again_and_again_loses_nothing_and_runs_nothing_twice_in_silence() {
    let place = Place::sqlite();
    let ledger = place.path("ledger.txt");
    project(&place, &ledger, "scale = 4\nwork_queue_size = 1000\n");
    let mut jobs = Vec::new();
    for round in 0..KILLS {
        let daemon = place.start(&["up"]);
        jobs.extend((0..2).map(|_| accept(&place)));
        // Every moment of a start and of a claim comes up in some round.
        std::thread::sleep(Duration::from_millis(round * 37 % 300));
        daemon.kill();
    }
    let daemon = place.start(&["up"]);
    eventually("everything is done", || !waiting_or_running(&place));
    let (begun, _) = read(&ledger);
    let lost: Vec<&String> = jobs.iter().filter(|job| !begun.contains_key(*job)).collect();
    assert_eq!(lost, Vec::<&String>::new(), "accepted and never run");
    let runs = place.json(&["runs", "--limit", "1000"]);
    for (job, times) in begun.iter().filter(|(_, times)| **times > 1) {
        let told = runs["runs"].as_array().unwrap().iter().filter(|run| run["job"] == job.as_str()).count();
        assert!(told >= *times as usize, "{job} began {times} times, and history tells of {told}");
    }
    daemon.signal(Signal::TERM);
    daemon.end().expect(0);
}
