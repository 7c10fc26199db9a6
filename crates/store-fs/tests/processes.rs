//! Several processes on one folder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use bell_store::Store;
use bell_store::txn::{Outcome, Stamp, Txn, Watch, Write};
use support::{acknowledged, block_on, create, increment, number, open};

const INCREMENTS: u64 = 150;

/// What a reading child says when it begins.
const READING: &str = "reading\n";

#[test]
fn child() {
    let Some((role, folder)) = support::role() else { return };
    match role.as_str() {
        "increment" => block_on(async {
            let store = open(&folder);
            for _ in 0..INCREMENTS {
                increment(&store, "counter").await;
            }
        }),
        "open" => block_on(async {
            let name = format!("p/{}", std::process::id());
            let committed = create(&open(&folder), &name, b"").await.unwrap();
            eprintln!("ack {name} {}", committed.revision);
        }),
        "read" => block_on(read_until_told(&folder)),
        "write-once" => block_on(async {
            create(&open(&folder), "news", b"").await.unwrap();
        }),
        other => panic!("no role {other}"),
    }
}

/// Both records are always written together, so they must always be seen together.
async fn read_until_told(folder: &Path) {
    let store = open(folder);
    let mut revision = 0;
    eprint!("{READING}");
    loop {
        let seen = store.scan("", "", 10).await.unwrap();
        assert!(seen.revision >= revision, "revision went back from {revision} to {}", seen.revision);
        revision = seen.revision;
        assert_eq!(seen.version("left"), seen.version("right"));
        if seen.records.contains_key("stop") {
            return;
        }
    }
}

/// A child that has begun to read.
fn reading(folder: &Path) -> Child {
    let mut child = support::child("read", folder).spawn().unwrap();
    let mut first = [0; READING.len()];
    child.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(first, READING.as_bytes());
    child
}

fn ended_well(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {told}", output.status);
    told
}

#[test]
fn processes_that_count_together_lose_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let start = |_| support::child("increment", temp.path()).spawn().unwrap();
    let children: Vec<Child> = (0..3).map(start).collect();
    children.into_iter().for_each(|child| drop(ended_well(child)));
    let seen = block_on(open(temp.path()).read(&["counter".into()])).unwrap();
    assert_eq!(number(&seen.records["counter"].value), 3 * INCREMENTS);
    assert_eq!(seen.revision, 3 * INCREMENTS, "one revision for each");
}

#[test]
fn a_new_folder_can_be_opened_by_many_at_once() {
    for _ in 0..5 {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("a/b/store");
        let start = |_| support::child("open", &folder).spawn().unwrap();
        let children: Vec<Child> = (0..8).map(start).collect();
        let told: String = children.into_iter().map(ended_well).collect();
        let acknowledged = acknowledged(&told);
        assert_eq!(acknowledged.len(), 8);
        let store = open(&folder);
        assert_eq!(support::missing(&store, &acknowledged), []);
        assert_eq!(block_on(store.read(&[])).unwrap().revision, 8);
    }
}

#[test]
fn readers_in_other_processes_lose_nothing_while_journals_take_over() {
    let temp = tempfile::tempdir().unwrap();
    let store = open(temp.path());
    let children: Vec<Child> = (0..2).map(|_| reading(temp.path())).collect();
    let value = vec![b'x'; 100_000];
    block_on(async {
        for _ in 0..100 {
            let put = || Write::Put(value.clone(), Stamp::New);
            let writes = vec![("left".into(), put()), ("right".into(), put())];
            let outcome = store.commit(Txn { writes, ..Txn::default() }).await.unwrap();
            assert!(matches!(outcome, Outcome::Committed(_)));
        }
        create(&store, "stop", b"").await.unwrap();
    });
    children.into_iter().for_each(|child| drop(ended_well(child)));
    drop(store);
    let names: Vec<String> = journals(temp.path());
    assert_eq!(names.len(), 1, "old journals are removed: {names:?}");
    let generation: u64 = names[0].trim_start_matches("journal.").parse().unwrap();
    assert!(generation > 5, "20 MB were written: {names:?}");
    assert!(fs::metadata(temp.path().join(&names[0])).unwrap().len() < 4 << 20);
    let seen = block_on(open(temp.path()).scan("", "", 10)).unwrap();
    assert_eq!((seen.records.len(), seen.revision), (3, 101));
}

fn journals(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("journal.")).collect()
}

#[test]
fn a_change_by_another_process_wakes_those_who_wait() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(open(temp.path()));
    block_on(async {
        let waiting = Arc::clone(&store);
        let watch = Watch::Names(vec![("news".into(), 0)]);
        let woken = tokio::spawn(async move { waiting.changed(&watch).await });
        ended_well(support::child("write-once", temp.path()).spawn().unwrap());
        woken.await.unwrap().unwrap();
        assert_eq!(store.read(&["news".into()]).await.unwrap().version("news"), 1);
    });
}
