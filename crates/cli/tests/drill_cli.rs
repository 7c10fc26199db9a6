//! The drill with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bell_e2e::Redis;
use rustix::process::Signal;
use support::{Place, eventually};

const PASSWORD: &str = "hunter2";

/// The processes that this one has started.
fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains(") T ")
}

fn names(place: &Place) -> Vec<String> {
    let database = rusqlite::Connection::open(place.path("bell.db")).unwrap();
    let mut names = database.prepare("SELECT name FROM entries").unwrap();
    names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn no_stale_write_gets_through_and_nothing_is_left() {
    let place = Place::sqlite();
    let ran = place.run(&["drill", "--rounds", "2", "--ttl", "1s"]).expect(0);
    assert_eq!(ran.out.lines().last(), Some("0 of 6 stale writes got through"), "{ran:?}");
    assert!(ran.out.contains("round 2 of 2") && !ran.out.contains('✗'), "{ran:?}");
    assert_eq!(names(&place), Vec::<String>::new());
}

#[test]
fn the_timeline_is_data_too() {
    let place = Place::folder();
    let report = place.run(&["--json", "drill", "--rounds", "1"]).expect(0).json();
    assert_eq!((&report["passed"], &report["got_through"]), (&true.into(), &0.into()));
    let steps = report["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["right"] == true && step["at_ms"].is_u64()), "{report}");
    let refused = |step: &&serde_json::Value| step["what"].as_str().unwrap().contains("refused");
    let stale: Vec<_> = steps.iter().filter(refused).collect();
    assert_eq!(stale.len(), 3, "{report}");
    assert!(stale.iter().all(|step| step["fence"].is_u64()), "{report}");
}

#[test]
fn a_password_is_in_no_argument_and_in_no_line() {
    let server = Redis::start_with(&["--requirepass", PASSWORD]);
    let place = Place { url: format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port()), ..Place::sqlite() };
    let running = place.start(&["drill", "--rounds", "1"]);
    eventually("the drill has its processes", || children(running.pid()).len() == 2);
    for child in children(running.pid()) {
        let arguments = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        assert!(!arguments.contains(PASSWORD), "{arguments}");
    }
    let ran = running.end().expect(0);
    assert!(!format!("{}{}", ran.out, ran.err).contains(PASSWORD), "{ran:?}");
}

#[test]
fn an_interrupted_drill_ends_its_processes_and_removes_what_it_wrote() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::sqlite();
        let running = place.start(&["drill", "--ttl", "60s"]);
        let mut started = Vec::new();
        eventually("one of its processes is paused", || {
            started = children(running.pid());
            started.iter().any(|child| is_stopped(*child))
        });
        running.signal(signal);
        running.end().expect(code);
        let gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
        eventually("its processes are gone", || started.iter().all(gone));
        assert_eq!(names(&place), Vec::<String>::new());
    }
}

#[test]
fn a_killed_drill_leaves_no_paused_process() {
    let place = Place::sqlite();
    let running = place.start(&["drill", "--ttl", "60s"]);
    let mut started = Vec::new();
    eventually("one of its processes is paused", || {
        started = children(running.pid());
        started.iter().any(|child| is_stopped(*child))
    });
    running.kill();
    let ended = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    eventually("its processes have ended", || started.iter().all(ended));
}

#[test]
fn what_can_not_be_drilled_is_refused_with_the_reason() {
    let memory = Place { url: "memory:".to_owned(), ..Place::sqlite() };
    let ran = memory.run(&["drill"]).expect(4);
    assert!(ran.err.contains("nobody else would see the lock"), "{ran:?}");
    let place = Place::sqlite();
    for ttl in ["10m", "10ms", "soon"] {
        let ran = place.run(&["drill", "--ttl", ttl]).expect(4);
        assert!(ran.err.contains("hint: "), "{ran:?}");
    }
    place.run(&["drill", "--rounds", "0"]).expect(9);
}
