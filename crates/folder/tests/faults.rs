//! Lost replies, missing features and full disks, under the code that runs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bell_folder::Kind;
use bell_folder::queue::{FolderQueue, Pulse, Settings};
use support::{Fault, Flaky, Ground};

/// With the flags of renames, and as NFS is, without.
fn layers(faults: &[Fault]) -> [std::sync::Arc<Flaky>; 2] {
    [Flaky::new(faults), Flaky::without_flags(faults)]
}

#[test]
fn a_claim_whose_reply_got_lost_is_recognised() {
    for fault in [Fault::RepliesNotFound, Fault::RepliesIo] {
        for files in layers(&[]) {
            let ground = Ground::new();
            ground.push(&["x"]);
            let queue = ground.over(files.clone());
            let mut worker = queue.worker(Some("w"), Pulse::Beating).unwrap();
            files.then(fault);
            let claim = worker.claim().unwrap().expect("it is ours");
            assert_eq!(ground.names("claimed/w"), ["x"]);
            claim.done().unwrap();
            assert_eq!(ground.names("done"), ["x"]);
        }
    }
}

#[test]
fn a_claim_that_another_won_is_not_taken_for_a_lost_reply() {
    let ground = Ground::new();
    ground.push(&["x", "y"]);
    let files = Flaky::new(&[]);
    let queue = ground.over(files);
    let mut first = queue.worker(Some("first"), Pulse::Beating).unwrap();
    let mut second = queue.worker(Some("second"), Pulse::Beating).unwrap();
    let claimed = [first.claim().unwrap().unwrap(), second.claim().unwrap().unwrap()];
    assert_ne!(claimed[0].name(), claimed[1].name());
    // Somebody takes over the name, and the nonce with it: what lies there is not the old one's.
    ground.push(&["z"]);
    std::fs::write(ground.path(".bell-queue/workers/first"), r#"{"nonce":"another","pulse":"beating"}"#)
        .unwrap();
    std::fs::rename(ground.path("queue/z"), ground.path("claimed/first/z")).unwrap();
    assert!(first.claim().unwrap().is_none());
}

#[test]
fn a_claim_in_doubt_is_taken_up_by_the_next() {
    let ground = Ground::new();
    ground.push(&["x"]);
    let files = Flaky::new(&[]);
    let mut worker = ground.over(files.clone()).worker(Some("w"), Pulse::Beating).unwrap();
    files.then(Fault::FailsIo);
    let error = worker.claim().unwrap_err();
    assert_eq!(error.kind(), Kind::Unknown);
    // The request was on its way all the time, and arrives now.
    std::fs::rename(ground.path("queue/x"), ground.path("claimed/w/x")).unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), "x");
    assert!(worker.claim().unwrap().is_none());
}

#[test]
fn a_done_whose_reply_got_lost_is_done() {
    for fault in [Fault::RepliesNotFound, Fault::RepliesIo] {
        for files in layers(&[]) {
            let ground = Ground::new();
            ground.push(&["x", "y"]);
            let mut worker = ground.over(files.clone()).worker(None, Pulse::Beating).unwrap();
            let claim = worker.claim().unwrap().unwrap();
            files.then(fault);
            claim.done().unwrap();
            let claim = worker.claim().unwrap().unwrap();
            files.then(fault);
            claim.fail("not today").unwrap();
            assert_eq!((ground.names("done"), ground.names("queue")), (vec!["x".into()], vec!["y#2".into()]));
        }
    }
}

#[test]
fn a_done_that_did_not_happen_is_unknown_and_can_be_repeated() {
    let ground = Ground::new();
    ground.push(&["x"]);
    let files = Flaky::new(&[]);
    let claim = ground.over(files.clone()).worker(None, Pulse::Beating).unwrap().claim().unwrap().unwrap();
    files.then(Fault::FailsIo);
    assert_eq!(claim.done().unwrap_err().kind(), Kind::Unknown);
    claim.done().unwrap();
    assert_eq!(ground.names("done"), ["x"]);
}

#[test]
fn a_push_whose_reply_got_lost_is_one_item() {
    for fault in [Fault::RepliesNotFound, Fault::RepliesIo] {
        let ground = Ground::new();
        ground.over(Flaky::new(&[fault])).push("x".as_bytes(), Some("x")).unwrap();
        assert_eq!((ground.names("queue"), ground.names(".tmp")), (vec!["x".into()], vec![]));
    }
    let ground = Ground::new();
    let error = ground.over(Flaky::new(&[Fault::FailsIo])).push("x".as_bytes(), None).unwrap_err();
    assert_eq!(error.kind(), Kind::Unknown);
    assert_eq!((ground.names("queue").len(), ground.names(".tmp").len()), (0, 0));
}

#[test]
fn without_flags_of_renames_a_name_that_waits_is_still_not_replaced() {
    let ground = Ground::new();
    let queue = ground.over(Flaky::without_flags(&[]));
    queue.push("first".as_bytes(), Some("x")).unwrap();
    assert_eq!(queue.push("second".as_bytes(), Some("x")).unwrap_err().kind(), Kind::Exists);
    assert_eq!(std::fs::read_to_string(ground.path("queue/x")).unwrap(), "first");
    assert!(ground.names(".tmp").is_empty());
}

/// Small disks of our own: `tools/check` runs the tests as root.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(at: std::path::PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        #[expect(clippy::disallowed_methods, reason = "tests mount disks of their own")]
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "bell-test"])
            .arg(&at)
            .stderr(std::process::Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(at))
    }

    fn remount(&self, how: &str) {
        #[expect(clippy::disallowed_methods, reason = "tests mount disks of their own")]
        let remounted =
            std::process::Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.0).status();
        assert!(remounted.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "tests mount disks of their own")]
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_the_push_and_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path().join("disk"), "size=256k") else { return };
    let queue = FolderQueue::init(&disk.0.join("q"), Settings::default()).unwrap();
    let error = queue.push(&vec![0; 1 << 20][..], Some("large")).unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert!(error.advice().contains("Free some space"));
    queue.push("small".as_bytes(), Some("small")).unwrap();
    assert_eq!(support::names(&disk.0.join("q/.tmp")), Vec::<String>::new());
    assert_eq!(support::names(&disk.0.join("q/queue")), ["small"]);
    // What waits can still be claimed and done.
    queue.worker(None, Pulse::Beating).unwrap().claim().unwrap().unwrap().done().unwrap();
}

#[test]
fn a_folder_that_takes_no_writes_is_refused_and_nothing_moves() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(folder.path().join("disk"), "size=256k") else { return };
    let queue = FolderQueue::init(&disk.0.join("q"), Settings::default()).unwrap();
    queue.push("x".as_bytes(), Some("x")).unwrap();
    disk.remount("ro");
    let claimed = queue.worker(Some("w"), Pulse::Unattended).and_then(|mut worker| worker.claim());
    for error in [queue.push("y".as_bytes(), None).unwrap_err(), claimed.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Unauthorized, "{error}");
        assert!(error.advice().contains("writable"));
    }
    disk.remount("rw");
    assert_eq!(support::names(&disk.0.join("q/queue")), ["x"]);
    let mut worker = queue.worker(Some("w"), Pulse::Unattended).unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), "x");
}

#[test]
fn a_queue_on_two_file_systems_is_refused() {
    let ground = Ground::new();
    ground.push(&["x"]);
    std::fs::remove_dir(ground.path("claimed")).unwrap();
    let Some(_disk) = Disk::mount(ground.path("claimed"), "size=64k") else { return };
    let error = FolderQueue::open(ground.queue.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("different file systems"), "{error}");
    // Mounted under a worker's feet.
    drop(_disk);
    let queue = FolderQueue::open(ground.queue.path()).unwrap();
    let Some(_disk) = Disk::mount(ground.path("claimed/w"), "size=64k") else { return };
    let error = queue.worker(Some("w"), Pulse::Beating).unwrap().claim().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert_eq!(ground.names("queue"), ["x"]);
}
