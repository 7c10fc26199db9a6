//! Publishing: whole or not at all, for every reader, at every crash, and for nobody who lost its lock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bell_core::lock::Fence;
use bell_folder::publish::{Layout, Published, Source, Way};
use bell_folder::{Kind, Publish, publish};
use support::{Fault, Flaky, KillAt, myself, names, order};

const FILES: usize = 4;

/// A folder whose files all say the same.
fn version(at: &Path, text: &str) -> PathBuf {
    let folder = at.join(format!("version-{text}"));
    fs::create_dir_all(folder.join("sub")).unwrap();
    for number in 0..FILES {
        fs::write(folder.join(format!("f{number}")), text).unwrap();
    }
    fs::write(folder.join("sub/deep"), text).unwrap();
    folder
}

fn put(source: &Path, to: &Path, how: &Publish) -> bell_folder::Result<Published> {
    publish(&Source::of(&[source.to_path_buf()])?, to, how)
}

/// What a reader sees who opens the folder once: the text in all files, or `None` if it was removed meanwhile.
fn read(folder: &Path) -> Option<String> {
    let opened = fs::File::open(folder).ok()?;
    let below = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened)));
    let mut seen = Vec::new();
    for name in ["f0", "f1", "f2", "f3", "sub/deep"] {
        seen.push(fs::read_to_string(below.join(name)).ok()?);
    }
    assert!(seen.iter().all(|text| *text == seen[0]), "a mixture: {seen:?}");
    seen.pop()
}

#[test]
fn files_and_folders_appear_and_are_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let to = temp.path().join("out");
    fs::create_dir(&to).unwrap();
    let (one, two) = (version(temp.path(), "1"), version(temp.path(), "2"));
    fs::set_permissions(one.join("f0"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("f0", one.join("link")).unwrap();
    let how = Publish::default();
    let published = put(&one, &to.join("site"), &how).unwrap();
    assert_eq!((published.way, published.files, published.bytes), (Way::Renamed, 5, 5));
    assert_eq!(fs::metadata(to.join("site/f0")).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(fs::read_link(to.join("site/link")).unwrap(), Path::new("f0"));
    assert_eq!(put(&two, &to.join("site"), &how).unwrap().way, Way::Exchanged);
    assert_eq!(read(&to.join("site")).unwrap(), "2");
    assert!(!to.join("site/link").exists(), "a folder is replaced whole");
    for text in ["a", "b"] {
        fs::write(temp.path().join("file"), text).unwrap();
        assert_eq!(put(&temp.path().join("file"), &to.join("file"), &how).unwrap().way, Way::Renamed);
        assert_eq!(fs::read_to_string(to.join("file")).unwrap(), text);
    }
    // What was replaced is gone with the next publish; nothing else lies about.
    assert_eq!(names(&to.join(".bell-publish")), Vec::<String>::new());
    assert_eq!(names(&to), [".bell-publish", "file", "site"]);
}

#[test]
fn versions_behind_a_link_keep_the_one_before() {
    let temp = tempfile::tempdir().unwrap();
    let to = temp.path().join("site");
    let linked = Publish::default().layout(Layout::Linked);
    for round in 0..5 {
        let source = version(temp.path(), &round.to_string());
        // Once it is a link, it stays one without being asked for.
        let how = if round == 0 { linked.clone() } else { Publish::default() };
        assert_eq!(put(&source, &to, &how).unwrap().way, Way::Linked);
        assert_eq!(read(&to).unwrap(), round.to_string());
    }
    assert_eq!(names(&temp.path().join(".bell-publish")).len(), 2, "this one and the one before");
    // A plain folder becomes a link in one step.
    let plain = temp.path().join("plain");
    put(&version(temp.path(), "x"), &plain, &Publish::default()).unwrap();
    assert_eq!(put(&version(temp.path(), "y"), &plain, &linked).unwrap().way, Way::Linked);
    assert!(plain.is_symlink());
    assert_eq!(read(&plain).unwrap(), "y");
}

#[test]
fn files_of_a_list_appear_together() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("a"), "A").unwrap();
    fs::write(temp.path().join("b"), "B").unwrap();
    let source = Source::manifest("a\nb -> data/deep/b.txt\n", temp.path()).unwrap();
    let to = temp.path().join("both");
    assert_eq!(publish(&source, &to, &Publish::default()).unwrap().files, 2);
    assert_eq!(fs::read_to_string(to.join("data/deep/b.txt")).unwrap(), "B");
    let missing = Source::manifest("a\nnone\n", temp.path()).unwrap();
    assert_eq!(publish(&missing, &to, &Publish::default()).unwrap_err().kind(), Kind::NotFound);
    assert!(to.join("data").exists(), "the old ones are still there");
    assert_eq!(names(&temp.path().join(".bell-publish")), Vec::<String>::new());
}

#[test]
fn a_stale_publisher_is_refused_and_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (to, new, old) = (temp.path().join("site"), version(temp.path(), "new"), version(temp.path(), "old"));
    let with = |fence| Publish::default().fence(Fence(fence));
    put(&new, &to, &with(12)).unwrap();
    let refused = put(&old, &to, &with(3)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Stale);
    let fences = refused.fences().unwrap();
    assert_eq!((fences.given, fences.seen), (Fence(3), Fence(12)));
    assert_eq!(read(&to).unwrap(), "new");
    put(&new, &to, &with(12)).unwrap();
    assert_eq!(fs::read_to_string(temp.path().join(".site.fence")).unwrap(), format!("{:020}\n", 12));
    fs::write(temp.path().join(".site.fence"), "garbage").unwrap();
    assert!(put(&new, &to, &with(99)).is_err(), "damage is not taken for a low fence");
}

#[test]
fn readers_never_see_a_mixture() {
    let rounds: usize = std::env::var("BELL_FOLDER_VERSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for layout in [Layout::Plain, Layout::Linked] {
        let temp = tempfile::tempdir().unwrap();
        let to = temp.path().join("site");
        let how = Publish::default().layout(layout);
        put(&version(temp.path(), "0"), &to, &how).unwrap();
        let (is_over, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        seen.fetch_add(usize::from(read(&to).is_some()), Ordering::Relaxed);
                    }
                });
            }
            for round in 1..=rounds {
                let source = version(temp.path(), &round.to_string());
                put(&source, &to, &how).unwrap();
                fs::remove_dir_all(source).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(read(&to).unwrap(), rounds.to_string());
        assert!(seen.into_inner() > 0, "readers saw whole versions");
    }
}

/// One publisher of the test below; it is killed before its n-th call.
#[test]
fn a_publisher() {
    let Some(order) = order() else { return };
    let words: Vec<&str> = order.split('|').collect();
    let [root, source, to, layout, at] = words[..] else { panic!("{order}") };
    let layout = if layout == "linked" { Layout::Linked } else { Layout::Plain };
    let files = KillAt::new(at.parse().unwrap());
    let how = Publish::default().layout(layout).fence(Fence(7)).over(files.clone());
    let root = Path::new(root);
    put(&root.join(source), &root.join(to), &how).unwrap();
    fs::write(root.join("calls"), files.calls().to_string()).unwrap();
}

#[test]
fn a_publisher_killed_at_any_step_leaves_the_old_or_the_new() {
    for (layout, to) in [("plain", "site"), ("linked", "site"), ("plain", "file")] {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let (old, new) = (version(root, "old"), version(root, "new"));
        let linked = Publish::default().layout(Layout::Linked);
        let how = if layout == "linked" { linked } else { Publish::default() };
        let source = if to == "file" { "version-new/f0" } else { "version-new" };
        let look =
            || if to == "file" { fs::read_to_string(root.join(to)).ok() } else { read(&root.join(to)) };
        let (mut at, mut kills) = (0, 0);
        loop {
            let before = if to == "file" { old.join("f0") } else { old.clone() };
            put(&before, &root.join(to), &how).unwrap();
            let order = format!("{}|{source}|{to}|{layout}|{at}", root.display());
            let ended = myself("a_publisher", &order).status().unwrap();
            let seen = look().unwrap_or_else(|| panic!("nothing is there after a kill at {at}"));
            assert!(seen == "old" || seen == "new", "{seen}");
            if ended.success() {
                assert_eq!(seen, "new");
                break;
            }
            kills += 1;
            at += 1;
        }
        assert!(kills > 5, "{layout} {to} was killed {kills} times");
        // The last one cleared up after all the dead.
        put(&new, &root.join("other"), &Publish::default()).unwrap();
        let left = names(&root.join(".bell-publish"));
        let expected = if layout == "linked" { 2 } else { 0 };
        assert_eq!(left.len(), expected, "{left:?}");
    }
}

#[test]
fn a_swap_whose_reply_got_lost_is_recognised() {
    for fault in [Fault::RepliesNotFound, Fault::RepliesIo] {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (version(temp.path(), "1"), version(temp.path(), "2"));
        for layout in [Layout::Plain, Layout::Linked] {
            let to = temp.path().join(format!("{layout:?}"));
            for source in [&one, &two] {
                let how = Publish::default().layout(layout).over(Flaky::new(&[fault]));
                put(source, &to, &how).unwrap();
            }
            assert_eq!(read(&to).unwrap(), "2");
        }
    }
}

#[test]
fn where_folders_can_not_change_places_only_links_are_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let (one, two) = (version(temp.path(), "1"), version(temp.path(), "2"));
    let to = temp.path().join("site");
    let how = Publish::default().over(Flaky::without_flags(&[]));
    put(&one, &to, &how).unwrap();
    let error = put(&two, &to, &how).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.advice().contains("--linked"), "{}", error.advice());
    assert_eq!(read(&to).unwrap(), "1");
    assert_eq!(names(&temp.path().join(".bell-publish")), Vec::<String>::new(), "nothing is left");
    let linked = how.layout(Layout::Linked);
    for source in [&one, &two] {
        put(source, &temp.path().join("linked"), &linked).unwrap();
    }
    assert_eq!(read(&temp.path().join("linked")).unwrap(), "2");
}

#[test]
fn what_can_not_be_published_is_refused_and_nothing_is_touched() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    let folder = version(root, "1");
    let outside = root.join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    fs::write(root.join("file"), "old").unwrap();
    let how = Publish::default();
    let refused = |source: &Path, to: &Path| put(source, to, &how).unwrap_err().kind();
    assert_eq!(refused(&folder, &root.join("link")), Kind::Invalid);
    assert_eq!(refused(&folder, &root.join("file")), Kind::Invalid);
    assert_eq!(refused(&folder.join("f0"), &outside), Kind::Invalid);
    assert_eq!(refused(&folder, &folder.join("inside")), Kind::Invalid);
    assert_eq!(refused(&folder, &root.join(".hidden")), Kind::Invalid);
    assert_eq!(refused(&folder, &root.join("n".repeat(300))), Kind::Invalid);
    assert_eq!(refused(&folder, Path::new("/")), Kind::Invalid);
    assert_eq!(refused(&root.join("none"), &root.join("x")), Kind::NotFound);
    assert_eq!(refused(&folder, &root.join("none/x")), Kind::NotFound);
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(refused(&folder, &root.join("x")), Kind::Invalid, "a pipe in it");
    assert!(names(&outside).is_empty());
    assert!(!root.join("x").exists());
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "old");
    // A planted link in the place of the workshop or of the fence.
    fs::remove_file(folder.join("pipe")).unwrap();
    let place = root.join("place");
    fs::create_dir(&place).unwrap();
    symlink(&outside, place.join(".bell-publish")).unwrap();
    assert_eq!(refused(&folder, &place.join("x")), Kind::Corrupt);
    fs::remove_file(place.join(".bell-publish")).unwrap();
    symlink(outside.join("victim"), place.join(".x.fence")).unwrap();
    let error = put(&folder, &place.join("x"), &Publish::default().fence(Fence(1))).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(names(&outside).is_empty() && !place.join("x").exists());
}
