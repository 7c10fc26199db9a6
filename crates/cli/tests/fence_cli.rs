//! Guarded writes with the real binary.

mod support;

use support::{Place, finish_with};

#[test]
fn a_stale_write_is_refused_and_changes_nothing() {
    let place = Place::sqlite();
    let write = |fence: &str, text: &str| {
        finish_with(place.command(&["--json", "fence", "write", "report", "--fence", fence]), text)
    };
    let written = write("5", "five").expect(0).json();
    assert_eq!((&written["outcome"], &written["fence"]), (&"written".into(), &5.into()));
    write("7", "seven").expect(0);
    let stale = write("6", "six").expect(7).json();
    assert_eq!(
        (&stale["outcome"], &stale["fence"], &stale["seen_fence"]),
        (&"stale".into(), &6.into(), &7.into())
    );
    assert_eq!(std::fs::read_to_string(place.path("report")).unwrap(), "seven");
    assert_eq!(place.json(&["fence", "show", "report"])["seen_fence"], 7);
    let plain = finish_with(place.command(&["fence", "write", "report", "--fence", "1"]), "one").expect(7);
    assert!(plain.err.starts_with("bell: stale: ") && plain.err.contains("\nhint: "), "{plain:?}");
}

#[test]
fn a_file_that_was_never_written_has_seen_no_fence() {
    let place = Place::sqlite();
    let shown = place.run(&["fence", "show", "report"]).expect(0);
    assert_eq!(shown.out, "report has seen no fence yet\n");
    assert!(place.json(&["fence", "show", "report"]).get("seen_fence").is_none());
}

#[test]
fn the_fence_comes_from_the_lock_that_the_command_runs_under() {
    let place = Place::sqlite();
    let script = format!("echo text | {} fence write report", env!("CARGO_BIN_EXE_bell"));
    place.run(&["lock", "run", "file:///report", "--", "sh", "-c", &script]).expect(0);
    assert_eq!(std::fs::read_to_string(place.path("report")).unwrap(), "text\n");
    assert!(place.json(&["fence", "show", "report"])["seen_fence"].as_u64().unwrap() > 0);
}

#[test]
fn a_fifo_in_place_of_the_file_of_fences_is_refused_at_once() {
    let place = Place::sqlite();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path(".report.fence"), rustix::fs::Mode::RUSR).unwrap();
    assert!(place.start(&["fence", "show", "report"]).end().code != 0);
    let write = place.command(&["fence", "write", "report", "--fence", "1"]);
    let refused = finish_with(write, "text");
    assert!(refused.code != 0 && refused.err.contains("not a regular file"), "{refused:?}");
    assert!(!place.path("report").exists());
}

#[test]
fn a_path_that_can_not_be_written_is_refused() {
    let place = Place::sqlite();
    finish_with(place.command(&["fence", "write", ".", "--fence", "1"]), "x").expect(4);
    finish_with(place.command(&["fence", "write", "no/such/folder", "--fence", "1"]), "x").expect(4);
}
