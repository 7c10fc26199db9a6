//! Killed at any moment, or betrayed by the disk: what was answered stays, and revisions never go back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use bell_store::record::{Name, Revision};
use bell_store::{Kind, Store};
use bell_store_fs::Folder;
use support::{Fault, acknowledged, acknowledgement, block_on, create, missing, open, put};

const CYCLES: usize = 40;

/// More crash points than any call has in the short life of a child.
const MAX_POINTS: usize = 80;

#[test]
fn child() {
    let Some((role, folder)) = support::role() else { return };
    match role.as_str() {
        "write-for-ever" => block_on(write_for_ever(&folder)),
        "promise-only" => (0..u64::MAX).for_each(|count| eprintln!("ack never/{count} {}", count + 1)),
        "write-some" => block_on(write_some(&folder)),
        "write-large" => block_on(write_large(&folder)),
        other => panic!("no role {other}"),
    }
}

/// Four at a time, so that batches hold more than one.
async fn write_for_ever(folder: &Path) {
    let store = Arc::new(open(folder));
    let writers = (0..4).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for count in 0.. {
                let name = format!("{}/{writer}/{count}", std::process::id());
                let committed = create(&*store, &name, b"value").await.unwrap();
                eprintln!("ack {name} {}", committed.revision);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

async fn write_some(folder: &Path) {
    // The disk may fail while the store is set up; then that is tried once more.
    let store = Folder::open(folder).or_else(|_| Folder::open(folder)).unwrap();
    for count in 0..5 {
        let name = format!("some/{count}");
        match create(&store, &name, b"value").await {
            Ok(committed) => eprintln!("ack {name} {}", committed.revision),
            Err(error) => eprintln!("failed {name} {:?}", error.kind()),
        }
    }
}

/// Enough to make a shorter journal take over once.
async fn write_large(folder: &Path) {
    let store = open(folder);
    let value = vec![b'x'; 400_000];
    for count in 0..4 {
        let name = format!("large/{count}");
        let committed = create(&store, &name, b"value").await.unwrap();
        eprintln!("ack {name} {}", committed.revision);
        put(&store, "large", &value).await.unwrap();
    }
}

/// Everything answered is there, the store can be used, and its revisions go on.
fn check(folder: &Path, acknowledged: &BTreeMap<Name, Revision>, context: &str) {
    let store = open(folder);
    assert_eq!(missing(&store, acknowledged), [], "{context}");
    let last = acknowledged.values().copied().max().unwrap_or(0);
    let next = block_on(create(&store, &format!("after {context}"), b"")).unwrap();
    assert!(next.revision > last, "{context}");
}

/// Lets a child tell of some commits, and kills it.
fn killed_after(role: &str, folder: &Path, count: usize) -> BTreeMap<Name, Revision> {
    let mut child = support::child(role, folder).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    while lines.lines().filter_map(acknowledgement).count() < count {
        assert_ne!(told.read_line(&mut lines).unwrap(), 0, "the child ended by itself: {lines}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    told.read_to_string(&mut lines).unwrap();
    // The last line may be cut short, and is then no answer that anybody got.
    let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
    acknowledged(whole)
}

#[test]
fn what_was_answered_survives_any_kill() {
    let temp = tempfile::tempdir().unwrap();
    let looker_on = open(temp.path());
    let mut all = BTreeMap::new();
    let mut revision = 0;
    for cycle in 0..CYCLES {
        let acknowledged = killed_after("write-for-ever", temp.path(), 1 + cycle % 7);
        assert_eq!(missing(&looker_on, &acknowledged), [], "cycle {cycle}");
        check(temp.path(), &acknowledged, &format!("cycle {cycle}"));
        let seen = block_on(looker_on.read(&[])).unwrap();
        assert!(seen.revision > revision, "cycle {cycle}");
        revision = seen.revision;
        all.extend(acknowledged);
    }
    assert_eq!(missing(&open(temp.path()), &all), []);
}

#[test]
fn the_check_for_lost_commits_finds_them() {
    let temp = tempfile::tempdir().unwrap();
    let acknowledged = killed_after("promise-only", temp.path(), 3);
    assert!(missing(&open(temp.path()), &acknowledged).len() >= 3);
}

/// Kills a child at the first, second, … call of this kind until it lives to its end. Tells how often it was killed.
fn kill_at_every(call: &str, role: &str) -> usize {
    for point in 1..MAX_POINTS {
        let temp = tempfile::tempdir().unwrap();
        let context = format!("{call} {point}");
        let fault = Fault { call, point, way: "signal=KILL" };
        let (mut child, was_killed) = support::child_with_fault(role, temp.path(), &fault);
        let Output { status, stderr, .. } = child.output().unwrap();
        let told = String::from_utf8_lossy(&stderr);
        check(temp.path(), &acknowledged(&told), &context);
        if !was_killed() {
            assert!(status.success(), "{context}: {told}");
            return point - 1;
        }
    }
    panic!("{call}: the child makes too many calls");
}

#[test]
fn what_was_answered_survives_a_kill_at_any_write_or_sync() {
    let kills = ["pwrite64", "fdatasync", "fsync"].map(|call| kill_at_every(call, "write-some"));
    assert!(
        kills[0] >= 10 && kills[1] >= 5 && kills[2] >= 3,
        "each commit has two writes and a sync: {kills:?}"
    );
}

#[test]
fn what_was_answered_survives_a_kill_while_a_journal_takes_over() {
    let kills = ["write", "ftruncate", "unlinkat", "fsync"].map(|call| kill_at_every(call, "write-large"));
    assert!(kills.iter().all(|kills| *kills > 0), "no call was met: {kills:?}");
}

/// Lets the first, second, … call of this kind fail, and gives the failures that the child was told of.
fn fail_at_every(call: &str, error: &str) -> Vec<Kind> {
    let mut failures = Vec::new();
    for point in 1..MAX_POINTS {
        let temp = tempfile::tempdir().unwrap();
        let context = format!("{call} {point}");
        let fault = Fault { call, point, way: &format!("error={error}") };
        let (mut child, was_met) = support::child_with_fault("write-some", temp.path(), &fault);
        let output = child.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{context}: {told}");
        let acknowledged = acknowledged(&told);
        let failed: Vec<(Name, Kind)> = told.lines().filter_map(failure).collect();
        assert_eq!(acknowledged.len() + failed.len(), 5, "{context}: {told}");
        assert!(failed.len() <= 1, "{context}: the store did not recover: {told}");
        check(temp.path(), &acknowledged, &context);
        check_absent(temp.path(), &failed, &context);
        failures.extend(failed.into_iter().map(|(_, kind)| kind));
        if !was_met() {
            return failures;
        }
    }
    panic!("{call}: the child makes too many calls");
}

fn failure(line: &str) -> Option<(Name, Kind)> {
    let (name, kind) = line.strip_prefix("failed ")?.split_once(' ')?;
    let kinds = [Kind::Unknown, Kind::Full, Kind::Unavailable, Kind::Corrupt];
    let kind = kinds.into_iter().find(|known| format!("{known:?}") == kind);
    Some((name.into(), kind.unwrap_or_else(|| panic!("unexpected: {line}"))))
}

/// A failure that is not in doubt means that nothing happened, and nothing comes back later.
fn check_absent(folder: &Path, failed: &[(Name, Kind)], context: &str) {
    let store = open(folder);
    for (name, _) in failed.iter().filter(|(_, kind)| *kind != Kind::Unknown) {
        let seen = block_on(store.read(std::slice::from_ref(name))).unwrap();
        assert_eq!(seen.version(name.as_str()), 0, "{context}: {name}");
    }
}

#[test]
fn a_failed_sync_is_never_answered_as_a_commit() {
    let failures = fail_at_every("fdatasync", "EIO");
    assert_eq!(failures, vec![Kind::Unknown; 5], "each commit has one sync");
}

#[test]
fn a_lack_of_space_found_at_the_sync_is_told_as_such() {
    assert_eq!(fail_at_every("fdatasync", "ENOSPC"), vec![Kind::Full; 5]);
}

#[test]
fn a_failed_write_of_a_batch_did_not_happen_and_of_a_head_is_in_doubt() {
    let failures = fail_at_every("pwrite64", "ENOSPC");
    assert_eq!(failures.iter().filter(|kind| **kind == Kind::Full).count(), 5, "{failures:?}");
    assert_eq!(failures.iter().filter(|kind| **kind == Kind::Unknown).count(), 5, "{failures:?}");
}
