//! The tour with the real binary.

mod support;

use support::{Place, finish};

#[test]
fn the_demonstration_tells_four_scenes_and_leaves_nothing_behind() {
    let place = Place::sqlite();
    let temporary = place.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = place.command(&["demo"]);
    command.env("TMPDIR", &temporary);
    let ran = finish(command).expect(0);
    let scenes = ran.out.lines().filter(|line| line.starts_with(char::is_numeric)).count();
    assert_eq!(scenes, 4, "{}", ran.out);
    assert!(ran.out.contains("✓") && !ran.out.contains("✗"), "{}", ran.out);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(!place.path("bell.db").exists() && !place.path("state").exists());
}

#[test]
fn the_demonstration_is_told_as_json_too() {
    let place = Place::sqlite();
    let story = place.json(&["demo"]);
    assert_eq!(story["passed"], true);
    let steps = story["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4);
    assert!(steps.iter().all(|step| step["passed"] == true && !step["told"].as_array().unwrap().is_empty()));
}

#[test]
fn a_demonstration_that_can_not_begin_says_why() {
    let place = Place::sqlite();
    let mut command = place.command(&["demo"]);
    command.env("TMPDIR", place.path("nowhere"));
    let ran = finish(command).expect(5);
    assert!(ran.err.contains("hint: Set TMPDIR"), "{ran:?}");
}
