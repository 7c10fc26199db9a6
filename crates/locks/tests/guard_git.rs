//! Guarded pushes with real git and repositories on disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;

use bell_locks::guard::Stale;
use bell_locks::guard::git::{self, GuardError, Push, Update};
use bell_locks::{Fence, Key};

/// A bare repository and clones of it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        run(place.folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "remote.git"]);
        place
    }

    fn remote(&self) -> PathBuf {
        self.folder.path().join("remote.git")
    }

    /// A clone with one commit of its own on top of what the remote has.
    fn clone(&self, name: &str) -> PathBuf {
        run(self.folder.path(), &["clone", "--quiet", "remote.git", name]);
        let clone = self.folder.path().join(name);
        commit(&clone, name);
        clone
    }

    fn hook(&self, name: &str, script: &str) {
        let path = self.remote().join("hooks").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Every ref of the remote with what it points at.
    fn refs(&self) -> String {
        run(&self.remote(), &["for-each-ref"])
    }

    /// The content that `main` has on the remote.
    fn content(&self) -> String {
        run(&self.remote(), &["show", "main:file"])
    }
}

#[expect(clippy::disallowed_methods, reason = "tests of git run git")]
fn run(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@example.org"]).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(clone: &Path, text: &str) {
    std::fs::write(clone.join("file"), text).unwrap();
    run(clone, &["add", "file"]);
    run(clone, &["commit", "--quiet", "--message", text]);
}

fn resource() -> Key {
    Key::parse("git://acme/site").unwrap()
}

fn main_with(fence: u64) -> Push {
    Push {
        remote: "origin".to_owned(),
        refspecs: vec!["main".to_owned()],
        resource: resource(),
        fence: Fence(fence),
        update: Update::Forward,
    }
}

fn set_main_with(fence: u64) -> Push {
    Push { update: Update::Set, ..main_with(fence) }
}

fn seen(clone: &Path) -> Option<u64> {
    git::highest(clone, "origin", &resource()).unwrap().map(|fence| fence.0)
}

#[test]
fn a_push_moves_the_branch_and_the_fence_together() {
    let place = Place::new();
    let clone = place.clone("one");
    assert_eq!(seen(&clone), None);
    git::push(&clone, &main_with(5)).unwrap();
    assert_eq!((place.content().as_str(), seen(&clone)), ("one", Some(5)));
    assert!(place.refs().contains("refs/bell/fences/git%3A%2F%2Facme%2Fsite"), "{}", place.refs());
    // What a plain push leaves behind, this one does too.
    assert_eq!(run(&clone, &["rev-parse", "origin/main"]), run(&clone, &["rev-parse", "main"]));
}

#[test]
fn a_stale_pusher_gets_through_0_of_10_times() {
    let place = Place::new();
    let stale = place.clone("stale");
    git::push(&stale, &main_with(5)).unwrap();
    let successor = place.clone("successor");
    git::push(&successor, &main_with(7)).unwrap();
    let before = place.refs();
    for round in 0..10 {
        commit(&stale, &format!("late {round}"));
        let push = if round % 2 == 0 { main_with(6) } else { set_main_with(5) };
        let refused = git::push(&stale, &push).unwrap_err();
        assert!(matches!(refused, GuardError::Stale(Stale { seen: Fence(7), .. })), "{refused}");
    }
    assert_eq!((place.refs(), place.content().as_str()), (before, "successor"));
}

#[test]
fn the_same_fence_may_push_again_and_the_ref_moves_each_time() {
    let place = Place::new();
    let clone = place.clone("one");
    git::push(&clone, &main_with(5)).unwrap();
    let before = place.refs();
    git::push(&clone, &main_with(5)).unwrap();
    assert_ne!(place.refs(), before);
    commit(&clone, "two");
    git::push(&clone, &main_with(5)).unwrap();
    assert_eq!((place.content().as_str(), seen(&clone)), ("two", Some(5)));
}

#[test]
fn resources_have_fences_of_their_own() {
    let place = Place::new();
    let clone = place.clone("one");
    git::push(&clone, &main_with(9)).unwrap();
    for other in ["git://acme/site/sub", "git://acme", &format!("job:{}", "A".repeat(500))] {
        let other = Key::parse(other).unwrap();
        git::push(&clone, &Push { resource: other.clone(), ..main_with(1) }).unwrap();
        assert_eq!(git::highest(&clone, "origin", &other).unwrap(), Some(Fence(1)));
    }
    assert_eq!(seen(&clone), Some(9));
}

#[test]
fn pushers_at_once_leave_the_highest_fence_and_its_content() {
    let place = Place::new();
    let [one, two] = [place.clone("one"), place.clone("two")];
    for round in 0..15_u64 {
        let (lower, higher) = (round * 2 + 1, round * 2 + 2);
        commit(&one, &format!("by {lower}"));
        commit(&two, &format!("by {higher}"));
        let start = Arc::new(Barrier::new(2));
        let pushers = [(one.clone(), lower), (two.clone(), higher)].map(|(clone, fence)| {
            let start = start.clone();
            thread::spawn(move || {
                start.wait();
                git::push(&clone, &set_main_with(fence))
            })
        });
        let [lower_push, higher_push] = pushers.map(|pusher| pusher.join().unwrap());
        let behind = |error: &GuardError| matches!(error, GuardError::Stale(_) | GuardError::Behind { .. });
        assert!(lower_push.as_ref().err().is_none_or(behind), "{lower_push:?}");
        higher_push.unwrap();
        assert_eq!((place.content(), seen(&one)), (format!("by {higher}"), Some(higher)), "round {round}");
    }
}

/// The moment between the look and the push, made as long as it takes: the client's own hook pushes for another.
#[test]
fn a_pusher_that_is_overtaken_after_it_looked_is_refused() {
    let place = Place::new();
    let [slow, quick] = [place.clone("slow"), place.clone("quick")];
    git::push(&slow, &main_with(1)).unwrap();
    let overtaking = format!(
        "test -e overtaken && exit 0\ntouch overtaken\nunset $(git rev-parse --local-env-vars)\n\
         cd {} && mark=$(printf 'bell fence 1\\nresource git://acme/site\\nfence 9\\n' | git hash-object -w --stdin) &&\n\
         git push --quiet --force origin main $mark:refs/bell/fences/git%3A%2F%2Facme%2Fsite",
        quick.display()
    );
    let hook = slow.join(".git/hooks/pre-push");
    std::fs::write(&hook, format!("#!/bin/sh\n{overtaking}\n")).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    commit(&slow, "late");
    let refused = git::push(&slow, &main_with(5)).unwrap_err();
    assert!(matches!(refused, GuardError::Stale(Stale { seen: Fence(9), .. })), "{refused}");
    assert_eq!(place.content(), "quick");
}

#[test]
fn a_branch_that_the_remote_refuses_leaves_the_fence_as_it_was() {
    let place = Place::new();
    let clone = place.clone("one");
    git::push(&clone, &main_with(5)).unwrap();
    let before = place.refs();
    commit(&clone, "two");
    for (hook, script) in [
        ("update", "case $1 in refs/heads/*) echo frozen today >&2; exit 1;; esac"),
        ("pre-receive", "echo frozen today >&2; exit 1"),
    ] {
        place.hook(hook, script);
        let refused = git::push(&clone, &main_with(6)).unwrap_err();
        assert!(matches!(refused, GuardError::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("frozen today"), "{refused}");
        assert_eq!(place.refs(), before, "{hook}");
        std::fs::remove_file(place.remote().join("hooks").join(hook)).unwrap();
    }
}

#[test]
fn a_branch_keeps_to_gits_own_rules_unless_it_is_to_be_set() {
    let place = Place::new();
    let [one, two] = [place.clone("one"), place.clone("two")];
    git::push(&one, &main_with(5)).unwrap();
    let before = place.refs();
    let behind = git::push(&two, &main_with(6)).unwrap_err();
    assert!(matches!(&behind, GuardError::Behind { refs, .. } if refs.len() == 1), "{behind}");
    assert_eq!(place.refs(), before);
    git::push(&two, &set_main_with(6)).unwrap();
    assert_eq!((place.content().as_str(), seen(&one)), ("two", Some(6)));
}

#[test]
fn a_remote_that_can_not_move_refs_together_is_refused() {
    let place = Place::new();
    let clone = place.clone("one");
    run(&place.remote(), &["config", "receive.advertiseAtomic", "false"]);
    let refused = git::push(&clone, &main_with(5)).unwrap_err();
    assert!(matches!(refused, GuardError::NotAtomic { .. }), "{refused}");
    assert_eq!(place.refs(), "");
}

#[test]
fn a_mark_that_something_else_wrote_is_refused_rather_than_taken_for_none() {
    let place = Place::new();
    let clone = place.clone("one");
    git::push(&clone, &main_with(5)).unwrap();
    for object in ["main", "main:file"] {
        run(&place.remote(), &["update-ref", "refs/bell/fences/git%3A%2F%2Facme%2Fsite", object]);
        let damaged = git::push(&clone, &main_with(9)).unwrap_err();
        assert!(matches!(damaged, GuardError::Damaged { .. }), "{damaged}");
    }
}

#[test]
fn a_lock_that_a_dead_process_left_on_the_remote_is_waited_for_and_then_told() {
    let place = Place::new();
    let clone = place.clone("one");
    git::push(&clone, &main_with(5)).unwrap();
    let before = place.refs();
    let lock = place.remote().join("refs/bell/fences/git%3A%2F%2Facme%2Fsite.lock");
    std::fs::write(&lock, "").unwrap();
    commit(&clone, "two");
    let contended = git::push(&clone, &main_with(6)).unwrap_err();
    assert!(matches!(contended, GuardError::Contended { .. }), "{contended}");
    assert_eq!(place.refs(), before);
    std::fs::remove_file(lock).unwrap();
    git::push(&clone, &main_with(6)).unwrap();
}

#[test]
fn wrong_input_is_refused_with_the_reason_and_without_credentials() {
    let place = Place::new();
    let clone = place.clone("one");
    let push = |push: Push| git::push(&clone, &push).unwrap_err();
    let to = |remote: &str| push(Push { remote: remote.to_owned(), ..main_with(1) });
    let of = |refspec: &str| push(Push { refspecs: vec![refspec.to_owned()], ..main_with(1) });
    assert!(matches!(to("nowhere"), GuardError::Remote { .. }));
    assert!(matches!(to("--upload-pack=touch x"), GuardError::Argument { .. }));
    assert!(matches!(of("--exec=touch x"), GuardError::Argument { .. }));
    assert!(matches!(of("no-such-branch"), GuardError::NoSource { .. }));
    let unreachable = to("http://me:s3cret@127.0.0.1:1/x.git").to_string();
    assert!(unreachable.contains("127.0.0.1:1/x.git") && !unreachable.contains("s3cret"), "{unreachable}");
    let outside = git::push(place.folder.path(), &main_with(1)).unwrap_err();
    assert!(matches!(outside, GuardError::NotARepository { .. }), "{outside}");
    let missing = git::push(&place.folder.path().join("missing"), &main_with(1)).unwrap_err();
    assert!(matches!(missing, GuardError::NotARepository { .. }), "{missing}");
    run(&clone, &["remote", "set-url", "--add", "--push", "origin", "../remote.git"]);
    run(&clone, &["remote", "set-url", "--add", "--push", "origin", "../other.git"]);
    assert!(matches!(push(main_with(1)), GuardError::SeveralUrls { .. }));
    assert_eq!(place.refs(), "");
}
