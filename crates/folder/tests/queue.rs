//! What a queue in a folder promises, tried with one process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::fs::symlink;
use std::time::Duration;

use bell_core::lock::Fence;
use bell_folder::Kind;
use bell_folder::name::ItemName;
use bell_folder::queue::{Act, Fate, FolderQueue, Limits, Mode, Pulse, Settings, State, Syncing};
use support::{Ground, names};

const LONG: Duration = Duration::from_secs(3_600);

fn name(text: &str) -> ItemName {
    ItemName::found(text.as_ref()).unwrap()
}

#[test]
fn items_are_claimed_oldest_first_and_done_once() {
    let ground = Ground::with(Settings::default());
    let pushed: Vec<String> = (0..50)
        .map(|number| ground.queue.push(number.to_string().as_bytes(), None).unwrap().to_string())
        .collect();
    assert!(pushed.is_sorted(), "names sort by age: {pushed:?}");
    let mut worker = ground.queue.worker(None, Pulse::Beating).unwrap();
    let mut claimed = Vec::new();
    while let Some(claim) = worker.claim().unwrap() {
        assert_eq!((claim.fence(), claim.attempt()), (Fence(1), 1));
        assert!(claim.is_ours().unwrap());
        claim.done().unwrap();
        claim.done().unwrap();
        claimed.push(claim.name().to_string());
    }
    assert_eq!(claimed, pushed);
    assert_eq!(ground.names("done"), pushed);
    drop(worker);
    assert!(ground.names("claimed").is_empty(), "a worker that leaves cleans up");
    assert!(ground.names(".bell-queue/workers").is_empty());
}

#[test]
fn an_item_moved_in_by_hand_and_one_moved_out_by_hand_are_like_any_other() {
    let ground = Ground::new();
    std::fs::write(ground.path(".tmp/x"), "x").unwrap();
    std::fs::rename(ground.path(".tmp/x"), ground.path("queue/x")).unwrap();
    std::fs::create_dir(ground.path("claimed/shell")).unwrap();
    ground.push(&["a", "b"]);
    let mut worker = ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
    let first = worker.claim().unwrap().unwrap();
    assert_eq!(first.path(), ground.path("claimed/w/a"));
    std::fs::rename(ground.path("queue/b"), ground.path("claimed/shell/b")).unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), "x");
    assert!(worker.claim().unwrap().is_none());
    // A later arrival, though the order was made before it came.
    std::fs::write(ground.path("queue/0"), "").unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), "0");
}

#[test]
fn names_that_a_dead_worker_took_from_the_order_are_found_again() {
    let ground = Ground::new();
    ground.push(&["only"]);
    let mut lost = ground.queue.worker(None, Pulse::Beating).unwrap();
    // It reads the order, and finds the item moved aside; so the end of the order has been reached.
    std::fs::rename(ground.path("queue/only"), ground.path(".tmp/only")).unwrap();
    std::fs::write(ground.path("queue/other"), "").unwrap();
    assert!(lost.claim().unwrap().is_some());
    std::fs::rename(ground.path(".tmp/only"), ground.path("queue/only")).unwrap();
    let mut other = ground.queue.worker(None, Pulse::Beating).unwrap();
    assert_eq!(other.claim().unwrap().unwrap().name().as_str(), "only");
}

#[test]
fn a_damaged_order_costs_nothing_but_a_new_listing() {
    let ground = Ground::new();
    ground.push(&["a", "b", "c"]);
    let take = |expected: &str| {
        let mut worker = ground.queue.worker(None, Pulse::Unattended).unwrap();
        assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), expected);
    };
    take("a");
    std::fs::write(ground.path(".bell-queue/order"), "garbage\n../../etc/passwd\n").unwrap();
    take("b");
    std::fs::write(ground.path(".bell-queue/order.at"), "\0\0\0").unwrap();
    take("c");
}

#[test]
fn a_failing_item_is_tried_again_under_a_higher_fence_and_then_put_aside() {
    let ground = Ground::new();
    ground.push(&["poison"]);
    let mut worker = ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
    let mut fences = Vec::new();
    loop {
        let claim = worker.claim().unwrap().unwrap();
        fences.push((claim.fence().0, claim.attempt()));
        if claim.fail("it can't be read").unwrap() == Fate::Failed {
            break;
        }
    }
    assert_eq!(fences, [(1, 1), (2, 2), (3, 3)]);
    let failed = ground.queue.items(State::Failed, 10).unwrap();
    assert_eq!((failed[0].item.as_str(), failed[0].reason.as_deref()), ("poison", Some("it can't be read")));
    // Put back by hand: the tries begin anew, the fence does not.
    let again = ground.queue.requeue(&name("poison#3"), None).unwrap();
    assert_eq!((again.fence(), again.attempt()), (Fence(4), 1));
    let claim = worker.claim().unwrap().unwrap();
    assert_eq!(claim.give_back().unwrap().as_str(), "poison#5.1");
}

#[test]
fn a_worker_that_was_declared_dead_can_not_mark_its_item() {
    let ground = Ground::new();
    ground.push(&["x"]);
    let mut late = ground.queue.worker(Some("same"), Pulse::Unattended).unwrap();
    let old = late.claim().unwrap().unwrap();
    let limits = Limits { unattended: Duration::ZERO, ..Limits::default() };
    assert_eq!(ground.queue.sweep(limits, Mode::Look).unwrap().found[0].act, Act::Requeued);
    assert_eq!(ground.names("queue"), Vec::<String>::new(), "a look changes nothing");
    assert_eq!(ground.queue.sweep(limits, Mode::Act).unwrap().found[0].act, Act::Requeued);
    assert_eq!(ground.names("queue"), ["x#2"]);
    // Even if the very same worker gets the item again.
    let new = late.claim().unwrap().unwrap();
    assert_eq!((new.fence(), old.fence()), (Fence(2), Fence(1)));
    for refused in [old.done().unwrap_err(), old.fail("no").unwrap_err(), old.open().unwrap_err()] {
        assert_eq!(refused.kind(), Kind::Stale, "{refused}");
        assert!(refused.advice().contains("Write nothing more"));
    }
    assert!(!old.is_ours().unwrap());
    new.done().unwrap();
    assert_eq!(old.done().unwrap_err().kind(), Kind::Stale, "that another has done it is not that it has");
    assert_eq!(ground.names("done"), ["x#2"]);
}

#[test]
fn the_janitor_leaves_the_living_alone_and_puts_spent_items_aside() {
    let ground = Ground::with(Settings { attempts: 1, syncing: Syncing::Nothing });
    ground.push(&["a", "b"]);
    let mut living = ground.queue.worker(Some("living"), Pulse::Beating).unwrap();
    let _claim = living.claim().unwrap().unwrap();
    std::fs::create_dir(ground.path("claimed/shell")).unwrap();
    std::fs::rename(ground.path("queue/b"), ground.path("claimed/shell/b")).unwrap();
    let limits = Limits { silent: LONG, unattended: LONG, window: Duration::ZERO };
    let sweep = ground.queue.sweep(limits, Mode::Act).unwrap();
    assert_eq!((sweep.alive, sweep.found.len()), (2, 0));
    let sweep = ground.queue.sweep(Limits { unattended: Duration::ZERO, ..limits }, Mode::Act).unwrap();
    assert_eq!((sweep.alive, sweep.found[0].act), (1, Act::Failed));
    assert!(sweep.found[0].why.contains("silent"), "{sweep:?}");
    assert_eq!((ground.names("failed"), ground.names("claimed")), (vec!["b".into()], vec!["living".into()]));
}

#[test]
fn only_one_janitor_sweeps_in_a_window() {
    let ground = Ground::new();
    let limits = Limits { window: LONG, ..Limits::default() };
    ground.queue.sweep(limits, Mode::Act).unwrap();
    assert_eq!(ground.queue.sweep(limits, Mode::Act).unwrap_err().kind(), Kind::Busy);
    ground.queue.sweep(limits, Mode::Look).unwrap();
    // A clock that was far ahead when the window was taken does not keep janitors away for ever.
    let shorter = Limits { window: Duration::from_secs(1), ..limits };
    ground.queue.sweep(shorter, Mode::Act).unwrap();
}

#[test]
fn what_a_dead_pusher_left_is_never_claimed_and_removed_in_the_end() {
    let ground = Ground::new();
    std::fs::write(ground.path(".tmp/half"), "ha").unwrap();
    assert!(ground.queue.worker(None, Pulse::Beating).unwrap().claim().unwrap().is_none());
    let limits = Limits { unattended: Duration::ZERO, window: Duration::ZERO, ..Limits::default() };
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(ground.queue.sweep(limits, Mode::Act).unwrap().drafts, 1);
    assert!(ground.names(".tmp").is_empty());
}

#[test]
fn two_processes_can_not_work_under_one_name() {
    let ground = Ground::new();
    let first = ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
    let error = ground.queue.worker(Some("w"), Pulse::Beating).unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    drop(first);
    ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
}

#[test]
fn a_worker_whose_folder_was_removed_makes_it_again() {
    let ground = Ground::new();
    let mut worker = ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
    std::fs::remove_dir(ground.path("claimed/w")).unwrap();
    ground.push(&["x"]);
    assert_eq!(worker.claim().unwrap().unwrap().path(), ground.path("claimed/w/x"));
}

#[test]
fn a_name_that_the_worker_has_already_is_passed_over() {
    let ground = Ground::new();
    ground.push(&["x", "y"]);
    std::fs::create_dir(ground.path("claimed/w")).unwrap();
    std::fs::write(ground.path("claimed/w/x"), "of an earlier time").unwrap();
    let mut worker = ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), "y");
    assert!(worker.claim().unwrap().is_none(), "and nobody spins on it");
    assert_eq!(std::fs::read_to_string(ground.path("claimed/w/x")).unwrap(), "of an earlier time");
}

#[test]
fn an_item_whose_name_has_no_room_for_a_fence_is_tried_once() {
    let ground = Ground::new();
    let long = "n".repeat(255);
    std::fs::write(ground.path("queue").join(&long), "").unwrap();
    let mut worker = ground.queue.worker(Some("w"), Pulse::Beating).unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().fail("no").unwrap(), Fate::Failed);
    assert_eq!(ground.names("failed"), [long]);
}

#[test]
fn a_claim_made_by_a_command_is_finished_by_another() {
    let ground = Ground::new();
    ground.push(&["x", "y"]);
    let claim = ground.queue.worker_for(None, Some(std::process::id())).unwrap().claim().unwrap().unwrap();
    let worker = claim.worker().to_owned();
    let other = FolderQueue::open(ground.queue.path()).unwrap();
    other.claimed(&worker, &name("x")).unwrap().done().unwrap();
    other.leave(&worker);
    assert!(ground.names("claimed").is_empty());
    other.claimed(&worker, &name("x")).unwrap().done().unwrap();
    assert_eq!(other.claimed(&worker, &name("y")).unwrap_err().kind(), Kind::Stale);
    assert_eq!(ground.queue.worker_for(None, Some(u32::MAX >> 1)).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_name_that_waits_is_not_replaced() {
    let ground = Ground::new();
    ground.push(&["x"]);
    let error = ground.queue.push("other".as_bytes(), Some("x")).unwrap_err();
    assert_eq!(error.kind(), Kind::Exists);
    assert_eq!(std::fs::read_to_string(ground.path("queue/x")).unwrap(), "x");
    assert!(ground.names(".tmp").is_empty());
    for wrong in ["../x", "a/b", ".x", "a\nb", "x#2", &"n".repeat(300)] {
        assert_eq!(ground.queue.push("".as_bytes(), Some(wrong)).unwrap_err().kind(), Kind::Invalid);
    }
    assert_eq!(ground.names("queue"), ["x"]);
}

#[test]
fn what_can_not_be_an_item_is_counted_and_left_alone() {
    use std::os::unix::ffi::OsStrExt;
    let ground = Ground::new();
    for strange in [&b"new\nline"[..], b"\xff\xfe", b".hidden"] {
        std::fs::write(ground.path("queue").join(std::ffi::OsStr::from_bytes(strange)), "").unwrap();
    }
    std::fs::create_dir(ground.path("queue/folder")).unwrap();
    symlink("/etc/passwd", ground.path("queue/link")).unwrap();
    ground.push(&["x"]);
    let mut worker = ground.queue.worker(None, Pulse::Beating).unwrap();
    assert_eq!(worker.claim().unwrap().unwrap().name().as_str(), "x");
    assert!(worker.claim().unwrap().is_none());
    let counts = ground.queue.counts().unwrap();
    assert_eq!((counts.waiting, counts.claimed, counts.unfit), (0, 1, 4));
    assert_eq!(ground.names("queue").len(), 5);
}

#[test]
fn a_link_in_the_place_of_a_folder_is_refused_and_nothing_outside_is_touched() {
    for part in ["queue", "claimed", "done", "failed", ".tmp", ".bell-queue"] {
        let ground = Ground::new();
        ground.push(&["x"]);
        let outside = ground.folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::rename(ground.path(part), ground.folder.path().join("aside")).unwrap();
        symlink(&outside, ground.path(part)).unwrap();
        let error = FolderQueue::open(ground.queue.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{part}: {error}");
        assert!(!error.advice().is_empty());
        assert!(names(&outside).is_empty(), "{part}");
    }
    // Planted while the queue is open: what is open stays what it was.
    let ground = Ground::new();
    ground.push(&["x"]);
    let outside = ground.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, ground.path("claimed/w")).unwrap();
    assert_eq!(ground.queue.worker(Some("w"), Pulse::Beating).unwrap_err().kind(), Kind::Corrupt);
    std::fs::rename(ground.path("done"), ground.path("done-before")).unwrap();
    symlink(&outside, ground.path("done")).unwrap();
    ground.queue.worker(None, Pulse::Beating).unwrap().claim().unwrap().unwrap().done().unwrap();
    assert!(names(&outside).is_empty());
}

#[test]
fn a_folder_that_is_no_queue_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = FolderQueue::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.advice().contains("bell queue init"), "{}", error.advice());
    assert!(names(folder.path()).is_empty(), "nothing was made");
    let error = FolderQueue::init(folder.path(), Settings { attempts: 0, ..Settings::default() });
    assert_eq!(error.unwrap_err().kind(), Kind::Invalid);
    // Made by hand, it is one.
    std::fs::create_dir(folder.path().join("queue")).unwrap();
    assert_eq!(FolderQueue::open(folder.path()).unwrap().settings(), Settings::default());
}

#[test]
fn whoever_waits_is_told_of_an_arrival() {
    let ground = Ground::new();
    let mut watch = ground.queue.watch().unwrap();
    assert!(!watch.wait(Duration::from_millis(20)).unwrap());
    let queue = ground.queue.clone();
    let pushing = std::thread::spawn(move || queue.push("x".as_bytes(), None).unwrap());
    assert!(watch.wait(Duration::from_secs(60)).unwrap());
    pushing.join().unwrap();
}
