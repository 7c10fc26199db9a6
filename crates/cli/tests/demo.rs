//! The tour with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;

use rustix::process::Signal;
use support::{Place, eventually, finish, start};

/// What the story must have in it, in order.
const SCENES: [&str; 9] = [
    "A schedule starts an agent",
    "Two runs of one agent want desk://demo",
    "The run that has the lock is killed",
    "A write of the killed run arrives late",
    "One agent calls another",
    "Two processes want deploy://api-prod",
    "The holder crashes",
    "A holder sleeps through the end of its lease, and writes when it wakes up",
    "Two processes each have what the other wants",
];

/// A place with a folder for what is temporary.
fn place() -> Place {
    let place = Place::sqlite();
    fs::create_dir(place.path("tmp")).unwrap();
    place
}

/// Whether any process was started in this place, or for it.
fn anybody_is_left(place: &Place) -> bool {
    let folder = place.path("tmp").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut said = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    said.any(|command| command.contains(&folder))
}

#[test]
fn the_demonstration_tells_the_whole_story_and_leaves_nothing_behind() {
    let place = place();
    let mut command = place.command(&["demo"]);
    command.env("TMPDIR", place.path("tmp"));
    let ran = finish(command).expect(0);
    let scenes = ran.out.lines().filter_map(|line| line.split_once(". ").filter(|_| !line.starts_with(' ')));
    let titles: Vec<&str> = scenes.map(|(_, title)| title).filter(|title| SCENES.contains(title)).collect();
    assert_eq!(titles, SCENES, "{}", ran.out);
    assert!(ran.out.contains("✓") && !ran.out.contains("✗"), "{}", ran.out);
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    assert!(!place.path("bell.db").exists() && !place.path("state").exists());
    eventually("nothing of it is left", || !anybody_is_left(&place));
}

#[test]
fn the_demonstration_is_told_as_json_too() {
    let place = Place::sqlite();
    let story = place.json(&["demo"]);
    assert_eq!(story["passed"], true, "{story}");
    let steps = story["steps"].as_array().unwrap();
    assert_eq!(steps.len(), SCENES.len());
    assert!(steps.iter().all(|step| step["passed"] == true && !step["told"].as_array().unwrap().is_empty()));
}

#[test]
fn a_demonstration_in_which_something_else_happens_says_so_and_fails() {
    let place = place();
    let mut command = place.command(&["demo"]);
    // Without a shell in it nobody gets to the desk.
    command.env("TMPDIR", place.path("tmp")).env("PATH", place.path("nowhere"));
    let ran = finish(command).expect(1);
    assert!(ran.out.lines().last().unwrap().starts_with("   ✗ desk-"), "{}", ran.out);
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    eventually("nothing of it is left", || !anybody_is_left(&place));
}

#[test]
fn a_demonstration_that_is_told_to_stop_leaves_nothing_behind() {
    let place = place();
    let mut command = place.command(&["demo"]);
    command.env("TMPDIR", place.path("tmp"));
    let mut story = start(command);
    while !story.line().ends_with(SCENES[1]) {}
    story.signal(Signal::INT);
    story.end().expect(130);
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    eventually("nothing of it is left", || !anybody_is_left(&place));
}

#[test]
fn a_demonstration_that_can_not_begin_says_why() {
    let place = Place::sqlite();
    let mut command = place.command(&["demo"]);
    command.env("TMPDIR", place.path("nowhere"));
    let ran = finish(command).expect(5);
    assert!(ran.err.contains("hint: Set TMPDIR"), "{ran:?}");
}
