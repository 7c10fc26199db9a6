//! Outboxes, and what the probe says of this machine's file systems.

mod support;

use std::fs;
use std::time::Duration;

use bell_folder::outbox::{clean, letters};
use bell_folder::probe::peer::peer;
use bell_folder::probe::{Verdict, probe};
use bell_folder::queue::Mode;
use bell_folder::{Kind, Outbox};
use support::names;

#[test]
fn files_of_all_writers_are_merged_in_the_order_of_time() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("out");
    let (one, two) = (Outbox::open(&root, Some("one")).unwrap(), Outbox::open(&root, Some("two")).unwrap());
    let mut expected = Vec::new();
    for round in 0..6 {
        let writer = if round % 2 == 0 { &one } else { &two };
        expected.push(writer.put(round.to_string().as_bytes(), Some("part.json")).unwrap());
        // Two writers keep their order as far as the clock of the file system has steps for it.
        std::thread::sleep(Duration::from_millis(10));
    }
    let found: Vec<_> = letters(&root).unwrap().into_iter().map(|letter| letter.path).collect();
    assert_eq!(found, expected);
    let burst: Vec<_> = (0..50).map(|_| one.put("x".as_bytes(), None).unwrap()).collect();
    assert!(burst.is_sorted(), "one writer keeps its order within a step of the clock");
    for wrong in ["../x", "a/b", ".x", ""] {
        assert_eq!(one.put("".as_bytes(), Some(wrong)).unwrap_err().kind(), Kind::Invalid);
        assert_eq!(Outbox::open(&root, Some(wrong)).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn what_dead_writers_left_half_done_is_cleaned_up_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let writer = Outbox::open(root, Some("dead")).unwrap();
    let whole = writer.put("whole".as_bytes(), None).unwrap();
    fs::write(writer.path().join(".half"), "ha").unwrap();
    Outbox::open(root, Some("empty")).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let day = Duration::from_secs(86_400);
    assert_eq!(clean(root, day, Mode::Act).unwrap(), Default::default());
    let would = clean(root, Duration::ZERO, Mode::Look).unwrap();
    assert_eq!((would.drafts.len(), would.folders.len()), (1, 1));
    assert!(writer.path().join(".half").exists());
    clean(root, Duration::ZERO, Mode::Act).unwrap();
    assert!(whole.exists());
    assert_eq!(names(root), [".bell-clock", "dead"]);
}

#[test]
fn a_local_file_system_holds_what_the_queue_needs_and_the_probe_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let report = probe(temp.path()).unwrap();
    let queue = report.uses.iter().find(|used| used.feature == "bell queue").unwrap();
    assert_eq!(queue.verdict, Verdict::Safe, "{report:#?}");
    for about in ["flock", "exclusive create", "rename over", "file identity"] {
        let finding = report.findings.iter().find(|finding| finding.about == about).unwrap();
        assert_eq!(finding.verdict, Verdict::Safe, "{finding:?}");
    }
    assert!(names(temp.path()).is_empty());
    assert_eq!(probe(&temp.path().join("none")).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn two_at_once_prove_it_together() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path();
    let limit = Duration::from_secs(60);
    let reports = std::thread::scope(|scope| {
        let other = scope.spawn(|| peer(path, limit).unwrap());
        [peer(path, limit).unwrap(), other.join().unwrap()]
    });
    for report in reports {
        assert_eq!(report.findings.len(), 5);
        let bad: Vec<_> = report.findings.iter().filter(|found| found.verdict == Verdict::Unsafe).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
    let alone = peer(path, Duration::from_millis(10)).unwrap_err();
    assert_eq!(alone.kind(), Kind::Busy, "{alone}");
}
