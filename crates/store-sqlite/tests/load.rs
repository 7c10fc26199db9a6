//! Many transactions: few commits of the engine, a log that stays small, a clock that only goes on.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[expect(dead_code, reason = "not every test file needs all of it")]
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use bell_store::{Store, Timestamp};
use bell_store_sqlite::Sqlite;
use rusqlite::Connection;
use support::{commit, put, runtime};
use tokio::task::JoinSet;

const SESSIONS: usize = 64;

#[test]
fn transactions_that_wait_together_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let store = Arc::new(Sqlite::open(&path).unwrap());
    let other = Connection::open(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut commits = JoinSet::new();
        for session in 0..SESSIONS {
            let store = Arc::clone(&store);
            commits.spawn(
                async move { commit(&*store, put(&format!("session/{session}"), "1")).await.unwrap() },
            );
        }
        // On one thread, every task has handed its transaction in before this one has gone on a few times.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        other.execute_batch("ROLLBACK").unwrap();
        let mut revisions: Vec<u64> =
            commits.join_all().await.into_iter().map(|done| done.revision).collect();
        revisions.sort_unstable();
        assert_eq!(revisions, (1..=64).collect::<Vec<_>>(), "each has a revision of its own");
    });
    assert!(store.batches() <= 2, "what the first commit left is taken by the second: {}", store.batches());
}

#[test]
fn the_log_stays_small_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let store = Arc::new(Sqlite::open(&path).unwrap());
    runtime().block_on(async {
        for round in 0..64 {
            let mut commits = JoinSet::new();
            for session in 0..SESSIONS {
                let store = Arc::clone(&store);
                let value = vec![round; 10_000];
                commits.spawn(async move {
                    commit(&*store, put(&format!("session/{session}"), value)).await.unwrap()
                });
            }
            commits.join_all().await;
        }
    });
    let log_bytes = fs::metadata(folder.path().join("bell.db-wal")).unwrap().len();
    assert!(log_bytes < 12 << 20, "40 MB were written, and {log_bytes} bytes are in the log");
}

#[test]
fn the_log_stays_small_when_every_writer_is_short_lived() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let _idle = Sqlite::open(&path).unwrap();
    let runtime = runtime();
    for _ in 0..60 {
        let store = Sqlite::open(&path).unwrap();
        runtime.block_on(commit(&store, put("a", vec![0; 1 << 20]))).unwrap();
    }
    let log_bytes = fs::metadata(folder.path().join("bell.db-wal")).unwrap().len();
    assert!(log_bytes < 24 << 20, "60 MiB were written, and {log_bytes} bytes are in the log");
}

#[test]
fn the_clock_goes_on_after_a_reboot_with_the_wall_clock_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let runtime = runtime();
    let now = runtime.block_on(Sqlite::open(&path).unwrap().now()).unwrap();
    let last = Timestamp::from_ms(now.as_ms() + 3_600_000);
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE meta SET boot = 'an earlier one', last_ms = ?1", [last.as_ms()])
        .unwrap();
    let first = Sqlite::open(&path).unwrap();
    let second = Sqlite::open(&path).unwrap();
    let earlier = runtime.block_on(first.now()).unwrap();
    assert!(earlier >= last);
    assert!(runtime.block_on(second.now()).unwrap() >= earlier, "every process has the same clock");
}

#[test]
fn every_file_is_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("bell.db")).unwrap();
    runtime().block_on(commit(&store, put("a", "1"))).unwrap();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    for file in ["bell.db", "bell.db-wal", "bell.db-shm"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    assert_eq!(mode("bell.db-bell"), 0o700);
}
