//! `bell fence push` with the real binary, real git, and repositories on disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use support::{Place, eventually, finish};

const RESOURCE: &str = "git://acme/site";

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = program("git");
    command.args(["-c", "user.name=test", "-c", "user.email=test@example.org"]).args(arguments);
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "tests run the real programs")]
fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// A remote, and clones of it named `old` and `new`, each with a commit of its own.
fn repositories() -> Place {
    let place = Place::sqlite();
    git(place.folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "remote.git"]);
    for name in ["old", "new"] {
        git(place.folder.path(), &["clone", "--quiet", "remote.git", name]);
        commit(&place, name);
    }
    place
}

fn commit(place: &Place, clone: &str) {
    git(&place.path(clone), &["commit", "--quiet", "--allow-empty", "--message", clone]);
}

fn refs(place: &Place) -> String {
    git(&place.path("remote.git"), &["for-each-ref"])
}

fn in_clone(place: &Place, clone: &str, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.current_dir(place.path(clone));
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn push(place: &Place, clone: &str, fence: &str, more: &[&str]) -> Command {
    let push = ["--json", "fence", "push", "origin", "main", "--resource", RESOURCE, "--fence", fence];
    in_clone(place, clone, &[&push, more].concat())
}

/// Another program by the name of git.
fn shim(place: &Place, script: &str) {
    let path = place.path("bin/git");
    std::fs::create_dir(place.path("bin")).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

fn with_shim(place: &Place, mut command: Command) -> Command {
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path);
    command
}

fn seen(place: &Place) -> Value {
    let shown = ["--json", "fence", "show", "--git", "origin", "--resource", RESOURCE];
    finish(in_clone(place, "new", &shown)).expect(0).json()["seen_fence"].clone()
}

#[test]
fn a_stale_push_is_refused_and_changes_nothing() {
    let place = repositories();
    assert_eq!(seen(&place), Value::Null);
    let pushed = finish(push(&place, "new", "7", &[])).expect(0).json();
    assert_eq!((&pushed["outcome"], &pushed["fence"]), (&"written".into(), &7.into()));
    assert_eq!(pushed["key"], RESOURCE);
    let before = refs(&place);
    let stale = finish(push(&place, "old", "6", &["--force"])).expect(7).json();
    assert_eq!((&stale["outcome"], &stale["seen_fence"]), (&"stale".into(), &7.into()));
    assert_eq!((refs(&place), seen(&place)), (before, 7.into()));
}

#[test]
fn a_branch_that_is_behind_is_refused_unless_it_is_to_be_set() {
    let place = repositories();
    finish(push(&place, "new", "7", &[])).expect(0);
    let behind = finish(push(&place, "old", "8", &[])).expect(4).json();
    assert!(behind["message"].as_str().unwrap().contains("refs/heads/main"), "{behind}");
    assert!(behind["hint"].as_str().unwrap().contains("--force"), "{behind}");
    assert_eq!(seen(&place), 7);
    finish(push(&place, "old", "8", &["--force"])).expect(0);
    assert_eq!(seen(&place), 8);
}

#[test]
fn killed_between_its_look_and_its_push_it_has_changed_nothing() {
    let place = repositories();
    finish(push(&place, "new", "5", &[])).expect(0);
    let before = refs(&place);
    // A git that stops before it pushes.
    let real =
        String::from_utf8(program("sh").args(["-c", "command -v git"]).output().unwrap().stdout).unwrap();
    let reached = place.path("reached");
    let stop = format!("if test \"$1\" = push; then touch {}; sleep 60; fi", reached.display());
    shim(&place, &format!("{stop}\nexec {} \"$@\"", real.trim()));
    commit(&place, "new");
    let mut command = with_shim(&place, push(&place, "new", "6", &[]));
    let mut child = command.process_group(0).spawn().unwrap();
    eventually("it is about to push", || reached.exists());
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_eq!(refs(&place), before);
    finish(push(&place, "new", "6", &[])).expect(0);
}

#[test]
fn the_fence_comes_from_the_lock_that_the_push_runs_under() {
    let place = repositories();
    let bell = env!("CARGO_BIN_EXE_bell");
    let run =
        ["lock", "run", RESOURCE, "--", bell, "fence", "push", "origin", "main", "--resource", RESOURCE];
    finish(in_clone(&place, "new", &run)).expect(0);
    assert!(seen(&place).as_u64().unwrap() > 0);
}

#[test]
fn wrong_input_says_what_is_wrong_and_what_to_do() {
    let place = repositories();
    let refused = |clone: &str, remote: &str, refspec: &str, code| {
        let push = ["fence", "push", "--resource", RESOURCE, "--fence", "1", "--", remote, refspec];
        let ran = finish(in_clone(&place, clone, &push)).expect(code);
        assert!(ran.err.starts_with("bell: ") && ran.err.contains("\nhint: "), "{ran:?}");
        ran.err
    };
    refused(".", "origin", "main", 4);
    refused("new", "nowhere", "main", 5);
    refused("new", "origin", "no-such-branch", 4);
    assert!(refused("new", "--upload-pack=x", "main", 4).contains("looks like an option"));
    assert!(refused("new", "origin", "--exec=x", 4).contains("looks like an option"));
    assert!(!refused("new", "http://me:s3cret@127.0.0.1:1/x", "main", 5).contains("s3cret"));
    shim(&place, "echo git version 2.28.0");
    let ran = finish(with_shim(&place, push(&place, "new", "1", &[]))).expect(5).json();
    assert!(ran["message"].as_str().unwrap().contains("2.28.0"), "{ran}");
    let mut command = push(&place, "new", "1", &[]);
    command.env("PATH", place.path("nowhere"));
    let ran = finish(command).expect(5).json();
    assert!(ran["hint"].as_str().unwrap().contains("Install git"), "{ran}");
    assert_eq!(refs(&place), "");
}
