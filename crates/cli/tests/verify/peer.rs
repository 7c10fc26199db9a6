//! `bell verify --peer`: two that know nothing of each other but the store.

use crate::report::{finding, records, verdicts};
use crate::support::{Place, Ran, eventually, start};
use bell_e2e::Redis;
use rustix::process::Signal;
use serde_json::Value;

/// Runs the two at once; the second has a wall clock that is an hour ahead.
fn both(place: &Place) -> [Ran; 2] {
    let first = place.start(&["--json", "verify", "--peer"]);
    let mut command = place.command(&["--json", "verify", "--peer"]);
    let library = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let library =
        library.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    command.env("LD_PRELOAD", library.expect("libfaketime: apt-get install faketime"));
    command.env("FAKETIME", "+1h").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    let second = start(command);
    [first.end(), second.end()]
}

fn agree(place: &Place) {
    let [first, second] = both(place).map(|ran| ran.expect(0).json());
    for report in [&first, &second] {
        assert_eq!(verdicts(report), ["passed"; 4], "{report:#}");
        let clock = finding(report, "clock")["evidence"].as_str().unwrap();
        let apart = clock.split(" are ").nth(1).and_then(|rest| rest.split(" ms").next()).unwrap();
        let apart: u64 = apart.replace(',', "").parse().unwrap();
        assert!(apart.abs_diff(3_600_000) < 60_000, "an hour, give or take a busy machine: {clock}");
    }
    let names = |report: &Value| -> Vec<Value> {
        report["findings"].as_array().unwrap().iter().map(|found| found["check"].clone()).collect()
    };
    assert_eq!(names(&first), names(&second));
    assert!(records(&place.url).is_empty(), "{:?}", records(&place.url));
}

#[test]
fn two_on_one_file_find_each_other_and_agree() {
    agree(&Place::sqlite());
}

#[test]
fn two_on_one_server_find_each_other_and_agree() {
    let server = Redis::start();
    agree(&Place { url: server.url("bell"), ..Place::sqlite() });
}

#[test]
fn where_nobody_comes_it_says_what_to_do() {
    let place = Place::sqlite();
    let ran = place.run(&["verify", "--peer", "--wait", "1s"]).expect(8);
    assert!(ran.err.contains("could not find another machine in 1s"), "{ran:?}");
    assert!(ran.err.contains("hint: Start bell verify --peer on the other machine"), "{ran:?}");
    assert!(records(&place.url).is_empty(), "{:?}", records(&place.url));
}

#[test]
fn whoever_is_told_to_stop_leaves_the_meeting_place() {
    let place = Place::sqlite();
    let waiting = place.start(&["verify", "--peer"]);
    eventually("it waits", || records(&place.url).iter().any(|(name, _)| name == "@verify-peer/seat"));
    waiting.signal(Signal::TERM);
    waiting.end().expect(143);
    assert!(records(&place.url).is_empty(), "{:?}", records(&place.url));
}

#[test]
fn a_seat_that_its_owner_left_cold_is_taken_over() {
    let place = Place::sqlite();
    let killed = place.start(&["verify", "--peer"]);
    eventually("it waits", || records(&place.url).iter().any(|(name, _)| name == "@verify-peer/seat"));
    killed.kill();
    std::thread::sleep(std::time::Duration::from_secs(11));
    let ran = place.run(&["verify", "--peer", "--wait", "1s"]).expect(8);
    assert!(records(&place.url).is_empty(), "{ran:?} {:?}", records(&place.url));
}
