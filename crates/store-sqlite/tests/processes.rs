//! Several processes on one file, and processes that are killed.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bell_store::{Outcome, Store, Watch};
use bell_store_sqlite::Sqlite;
use support::{Other, commit, put, replace, role, runtime, say, until_input_ends, value};

const PROCESSES: u64 = 2;
const INCREMENTS: u64 = 200;
const KILLS: u32 = 40;

/// Far longer than anything here takes on a busy machine: reached only if a wake-up never comes.
const LONG: Duration = Duration::from_secs(60);

/// Not a test: what a second process does. Without a role there is nothing to do.
#[test]
fn second_process() {
    let Some((role, store)) = role() else { return };
    match role.as_str() {
        "increment" => runtime().block_on(increment(&store)),
        "fill" => runtime().block_on(fill(&store)),
        "put" => {
            say("ready");
            std::io::stdin().read_exact(&mut [0]).unwrap();
            runtime().block_on(commit(&store, put("door", "open"))).unwrap();
            until_input_ends();
        }
        "attend" => {
            let _attendance = store.presence().attend("run-1").unwrap();
            say("ready");
            until_input_ends();
        }
        "open" => say("opened"),
        _ => panic!("no such role: {role}"),
    }
}

async fn increment(store: &Sqlite) {
    let mut seen = store.read(&["counter".into()]).await.unwrap();
    for _ in 0..INCREMENTS {
        loop {
            let count = seen.records.get("counter").map_or(0, |record| number(&record.value));
            let txn = replace("counter", seen.version("counter"), (count + 1).to_string());
            match store.commit(txn).await.unwrap() {
                Outcome::Committed(_) => break,
                Outcome::Conflict(found) => seen = found,
            }
        }
        seen = store.read(&["counter".into()]).await.unwrap();
    }
    say("done");
}

/// Commits numbered records as fast as it can, several at a time, and says which were answered.
async fn fill(store: &Sqlite) {
    let start = store.read(&[]).await.unwrap().revision;
    let fill_lane = async |lane: u32| {
        for round in 0.. {
            let name = format!("record/{start:09}/{lane}/{round:06}");
            let committed = commit(store, put(&name, name.as_str())).await.unwrap();
            say(&format!("{} {name}", committed.revision));
        }
    };
    tokio::join!(fill_lane(0), fill_lane(1), fill_lane(2), fill_lane(3));
}

fn number(value: &[u8]) -> u64 {
    str::from_utf8(value).unwrap().parse().unwrap()
}

#[test]
fn two_processes_count_together_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let mut counting: Vec<_> = (0..PROCESSES).map(|_| Other::start("increment", &path)).collect();
    for other in &mut counting {
        assert_eq!(other.heard().as_deref(), Some("done"));
    }
    let store = Sqlite::open(&path).unwrap();
    let count = runtime().block_on(value(&store, "counter")).unwrap();
    assert_eq!(number(&count), PROCESSES * INCREMENTS);
}

#[test]
fn a_killed_process_loses_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let runtime = runtime();
    let (mut answered, mut highest) = (BTreeMap::new(), 0);
    for cycle in 0..KILLS {
        let mut filling = Other::start("fill", &path);
        let first = filling.heard().expect("it commits something before it is killed");
        // Another moment in each cycle: in the middle of a commit, of a move of the log, of an answer.
        std::thread::sleep(Duration::from_micros(u64::from(cycle) * 7_919 % 40_000));
        filling.kill();
        for line in std::iter::once(first).chain(std::iter::from_fn(|| filling.heard())) {
            let (revision, name) = line.split_once(' ').unwrap();
            answered.insert(name.to_owned(), revision.parse::<u64>().unwrap());
        }
        highest = runtime.block_on(check(&path, &answered, highest));
    }
    assert!(answered.len() >= KILLS as usize);
}

/// Everything answered is there, at the revision it was answered with, and the revision has not gone back.
async fn check(path: &Path, answered: &BTreeMap<String, u64>, highest: u64) -> u64 {
    let store = Sqlite::open(path).unwrap();
    let mut found = BTreeMap::new();
    let mut from = String::new();
    let revision = loop {
        let page = store.scan("record/", &from, 1_000).await.unwrap();
        found.extend(page.records.iter().map(|(name, record)| (name.as_str().to_owned(), record.version)));
        match page.records.last_key_value() {
            Some((last, _)) if page.more => from = format!("{last}\0"),
            _ => break page.revision,
        }
    };
    for (name, revision) in answered {
        assert_eq!(found.get(name), Some(revision), "{name} was answered");
    }
    let largest_answered = answered.values().max().copied().unwrap_or(0);
    assert!(revision >= largest_answered.max(highest), "the revision went back");
    revision
}

#[test]
fn a_change_by_another_process_wakes_those_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let mut other = Other::start("put", &path);
    other.heard();
    let store = Sqlite::open(&path).unwrap();
    runtime().block_on(async {
        let after = store.read(&[]).await.unwrap().revision;
        let by_name = Watch::Names(vec![("door".into(), 0)]);
        let by_prefix = Watch::Prefix("do".to_owned(), after);
        let waiting = async { tokio::try_join!(store.changed(&by_name), store.changed(&by_prefix)) };
        other.nudge();
        tokio::time::timeout(LONG, waiting).await.expect("woken").unwrap();
        assert_eq!(value(&store, "door").await.as_deref(), Some(&b"open"[..]));
    });
}

#[test]
fn the_death_of_another_process_wakes_those_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bell.db");
    let mut other = Other::start("attend", &path);
    other.heard();
    let store = Sqlite::open(&path).unwrap();
    assert!(!store.presence().is_gone("run-1"));
    runtime().block_on(async {
        let watch = Watch::Names(vec![("nothing".into(), 0)]);
        let mut waiting = Box::pin(store.changed(&watch));
        // Once it waits, only the death can end it: nothing is committed here.
        let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
        assert!(early.is_err(), "nothing happened yet");
        other.kill();
        tokio::time::timeout(LONG, waiting).await.expect("woken").unwrap();
    });
    assert!(store.presence().is_gone("run-1"));
}

#[test]
fn eight_processes_open_a_fresh_file_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/bell.db");
        let mut opening: Vec<_> = (0..8).map(|_| Other::start("open", &path)).collect();
        for other in &mut opening {
            assert_eq!(other.heard().as_deref(), Some("opened"));
        }
    }
}
