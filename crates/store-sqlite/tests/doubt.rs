//! A disk that fails in the middle of a commit: nobody is told what a power cut could make untrue.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[expect(dead_code, reason = "not every test file needs all of it")]
mod support;

use std::path::Path;

use bell_store::{Kind, Store};
use bell_store_sqlite::Sqlite;
use support::{Other, command, commit, put, role, runtime, say, value};

const STOP: &str = "stop at the failure";
const GO_ON: &str = "go on after the failure";

/// Not a test: commits while the disk fails, says what came of it, and ends without closing the file.
#[test]
fn second_process() {
    let Some((role, store)) = role() else { return };
    runtime().block_on(async {
        for at in 0..6 {
            let name = format!("record/{at}");
            match commit(&store, put(&name, "1")).await {
                Ok(_) => say(&format!("{name} answered")),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Unknown, "{error}");
                    say(&format!("{name} {}", read_in_the_end(&store, &name).await));
                    if role == STOP {
                        break;
                    }
                }
            }
        }
    });
    std::process::abort();
}

/// Nothing is read while the disk still fails.
async fn read_in_the_end(store: &Sqlite, name: &str) -> &'static str {
    loop {
        match store.read(&[name.into()]).await {
            Ok(found) if found.records.is_empty() => return "missing",
            Ok(_) => return "there",
            Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{error}"),
        }
    }
}

#[test]
fn what_was_read_after_a_failed_commit_is_still_so_after_a_crash() {
    assert!(command("strace").arg("-V").output().is_ok(), "this test needs strace: apt-get install strace");
    // Counted for each thread: the first two of the writing thread begin the log.
    for failing in ["when=3", "when=3..4", "when=5"] {
        for role in [STOP, GO_ON] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("bell.db");
            let said = commit_with_failures(&path, failing, role);
            let failures = said.iter().filter(|line| !line.ends_with("answered")).count();
            assert!(failures > 0, "{failing}, {role}: the disk failed: {said:?}");
            runtime().block_on(check(&path, &said));
        }
    }
}

fn commit_with_failures(path: &Path, failing: &str, role: &str) -> Vec<String> {
    drop(Sqlite::open(path).unwrap());
    let mut strace = command("strace");
    let inject = format!("inject=fdatasync:error=EIO:{failing}");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject]);
    strace.arg(std::env::current_exe().unwrap());
    let mut child = Other::start_as(strace, role, path);
    std::iter::from_fn(|| child.heard()).collect()
}

async fn check(path: &Path, said: &[String]) {
    let store = Sqlite::open(path).unwrap();
    for line in said {
        let (name, was) = line.split_once(' ').unwrap();
        assert_eq!(value(&store, name).await.is_some(), was != "missing", "{line}");
    }
}
