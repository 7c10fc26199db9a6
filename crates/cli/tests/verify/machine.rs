//! Stores on this machine, and the command itself.

use crate::report::{finding, is_left_as_it_was, proves_everything, records, verdicts};
use crate::support::{Place, eventually, start};
use bell_e2e::free_port;
use rustix::process::Signal;

#[test]
fn a_sqlite_file_passes_everything_and_is_left_as_it_was() {
    let place = Place::sqlite();
    is_left_as_it_was(&place, || {
        let report = proves_everything(&place);
        assert_eq!(report["verdict"], "passed", "{report:#}");
        assert!(report["cleaning"]["removed"].as_u64().unwrap() > 0, "{report:#}");
    });
}

#[test]
fn a_folder_passes_everything_and_is_left_as_it_was() {
    let place = Place::folder();
    is_left_as_it_was(&place, || drop(proves_everything(&place)));
}

#[test]
fn a_store_in_memory_has_no_other_processes_and_says_so() {
    let place = Place::sqlite();
    let ran = place.run(&["--json", "verify", "memory:"]).expect(0);
    let report = ran.json();
    for (check, verdict) in [("exclusion", "not-applicable"), ("fences", "passed"), ("durability", "warning")]
    {
        assert_eq!(finding(&report, check)["verdict"], verdict, "{report:#}");
    }
    place.run(&["verify", "memory:", "--only", "durability", "--strict"]).expect(1);
}

#[test]
fn people_get_a_line_for_each_check_and_what_to_make_of_it() {
    let place = Place::sqlite();
    let ran = place.run(&["verify", &place.url, "--only", "fences", "--only", "durability"]).expect(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("pass ") && lines[0].contains("L3 ") && lines[0].contains(" fences from "));
    assert!(lines[1].contains("survives a power cut"), "{ran:?}");
    assert!(ran.out.contains("can be trusted with locks among processes of one machine"), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 2, "one line of progress for each check: {ran:?}");
}

#[test]
fn the_checks_are_listed() {
    let place = Place::sqlite();
    let list = place.json(&["verify", "--list"]);
    let names: Vec<&str> =
        list["checks"].as_array().unwrap().iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert!(names.contains(&"exclusion") && names.contains(&"stale-writer"), "{names:?}");
    assert!(place.run(&["verify", "--list"]).expect(0).out.lines().count() == names.len());
    assert!(!place.path("bell.db").exists());
}

#[test]
fn what_can_not_be_asked_for_is_refused_with_what_can() {
    let place = Place::sqlite();
    for (arguments, hint) in [
        (&["verify", "--only", "luck"][..], "bell verify --list"),
        (&["verify", "--seconds", "1"], "--thorough"),
        (&["verify", "nonsense"], "sqlite:PATH"),
        (&["verify", "gopher://x"], ""),
        (&["verify", "memory:", "--peer"], ""),
    ] {
        let ran = place.run(arguments).expect(4);
        assert!(ran.err.contains("hint: ") && ran.err.contains(hint), "{ran:?}");
    }
}

#[test]
fn nobody_there_is_unavailable_and_no_verdict() {
    let place = Place { url: format!("redis://:hunter2@127.0.0.1:{}", free_port()), ..Place::sqlite() };
    let ran = place.run(&["--json", "verify"]).expect(5);
    assert_eq!(ran.json()["outcome"], "unavailable");
    assert!(!format!("{ran:?}").contains("hunter2"), "{ran:?}");
}

#[test]
fn what_there_is_no_time_for_is_not_run_and_no_success() {
    let place = Place::sqlite();
    let report = place.run(&["--json", "verify", "--seconds", "5"]).expect(8).json();
    assert!(verdicts(&report).contains(&"not-run"), "{report:#}");
    assert!(report["took_ms"].as_u64().unwrap() < 30_000, "{report:#}");
    assert!(records(&place.url).is_empty());
}

#[test]
fn interrupted_it_cleans_up_before_it_goes() {
    let place = Place::sqlite();
    let running = place.start(&["--json", "verify", "--only", "exclusion", "--only", "stale-writer"]);
    eventually("it is at work", || records(&place.url).iter().any(|(name, _)| name.contains("/guard/")));
    running.signal(Signal::INT);
    let ran = running.end().expect(130);
    assert_eq!(ran.json()["interrupted"], true);
    assert!(records(&place.url).is_empty(), "{:?}", records(&place.url));
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_and_a_living_run_is_left_alone() {
    let place = Place::sqlite();
    let living = place.start(&["--json", "verify", "--only", "clock", "--only", "wrong-clock"]);
    eventually("one is at work", || !records(&place.url).is_empty());
    // A process that is killed leaves its temporary folders.
    let mut killed = place.command(&["--json", "verify", "--only", "exclusion"]);
    killed.env("TMPDIR", place.folder.path());
    let killed = start(killed);
    eventually("the other too", || records(&place.url).iter().any(|(name, _)| name.contains("/guard/")));
    killed.kill();
    let next = place.run(&["--json", "verify", "--only", "durability"]).expect(0);
    assert!(next.json()["cleaning"]["leftovers"].as_u64().unwrap() > 0, "{next:?}");
    assert!(next.err.contains("that a killed run had left"), "{next:?}");
    assert!(!records(&place.url).iter().any(|(name, _)| name.contains("/guard/")));
    let report = living.end().expect(0).json();
    assert!(verdicts(&report).iter().all(|verdict| *verdict == "passed"), "{report:#}");
    assert!(records(&place.url).is_empty(), "{:?}", records(&place.url));
}
