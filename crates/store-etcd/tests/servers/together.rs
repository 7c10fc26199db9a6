//! Commits that wait together, and requests from the executor that opened the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bell_e2e::{Etcd as Cluster, SharedEtcd};
use bell_store::{Expect, Kind, Name, Outcome, Result, Stamp, Store, Txn, Write};
use bell_store_etcd::Etcd;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::support::{commit, eventually, put, value};

/// More than go together at the most, so that some have to wait for the next transaction.
const MANY: usize = 100;

/// Commits all of these at once, and answers what came of each.
async fn at_once(store: &Arc<Etcd>, txns: Vec<Txn>) -> Vec<Result<Outcome>> {
    let mut tasks = JoinSet::new();
    for (number, txn) in txns.into_iter().enumerate() {
        let store = Arc::clone(store);
        tasks.spawn(async move { (number, store.commit(txn).await) });
    }
    let outcomes: BTreeMap<usize, Result<Outcome>> = tasks.join_all().await.into_iter().collect();
    outcomes.into_values().collect()
}

fn revision(outcome: &Result<Outcome>) -> u64 {
    match outcome {
        Ok(Outcome::Committed(committed)) => committed.revision,
        other => panic!("not committed: {other:?}"),
    }
}

fn names() -> Vec<Name> {
    (0..MANY).map(|number| format!("record/{number:03}").into()).collect()
}

fn write(name: &Name, expect: Option<Expect>, write: Write) -> Txn {
    let expect = expect.map(|expect| (name.clone(), expect)).into_iter().collect();
    Txn { at: None, expect, writes: vec![(name.clone(), write)] }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_made_at_once_share_transactions_and_each_has_its_own_revision() {
    let etcd = SharedEtcd::get();
    let store = Arc::new(Etcd::open(&etcd.url("together/revisions")).await.unwrap());
    let stamp = |name: &Name| write(name, None, Write::Put(b"1".to_vec(), Stamp::New));
    let txns = names().iter().map(stamp).collect();
    let revisions: Vec<u64> = at_once(&store, txns).await.iter().map(revision).collect();
    let found = store.read(&names()).await.unwrap();
    for (name, revision) in names().iter().zip(&revisions) {
        let record = &found.records[name];
        assert_eq!(
            (record.version, record.stamp, record.value.as_slice()),
            (*revision, *revision, &b"1"[..])
        );
    }
    assert_eq!(revisions.iter().collect::<BTreeSet<_>>().len(), MANY, "each has its own");
    assert_eq!(found.revision, revisions.iter().copied().max().unwrap(), "the last of them is the store's");
    let transactions: BTreeSet<u64> = revisions.iter().map(|revision| revision / 64).collect();
    assert!(transactions.len() < MANY / 2, "{MANY} commits took {} transactions", transactions.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_conflicts_is_in_nobodys_way_and_sees_why() {
    let etcd = SharedEtcd::get();
    let store = Arc::new(Etcd::open(&etcd.url("together/conflicts")).await.unwrap());
    for name in names().iter().step_by(2) {
        commit(&*store, put(name.as_str(), "taken")).await.unwrap();
    }
    let create = |name: &Name| write(name, Some(Expect::Absent), Write::Put(b"new".to_vec(), Stamp::New));
    let outcomes = at_once(&store, names().iter().map(create).collect()).await;
    let found = store.read(&names()).await.unwrap();
    for (number, (name, outcome)) in names().iter().zip(&outcomes).enumerate() {
        match outcome {
            Ok(Outcome::Conflict(seen)) if number % 2 == 0 => {
                assert_eq!(seen.records[name], found.records[name]);
                assert_eq!(seen.records[name].value, b"taken");
            }
            outcome => assert_eq!(revision(outcome), found.records[name].version),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_alone_that_conflicts_sees_why_whether_it_hoped_not_to_or_was_wary() {
    let etcd = SharedEtcd::get();
    let store = Etcd::open(&etcd.url("together/alone")).await.unwrap();
    let taken = commit(&store, put("a", "taken")).await.unwrap();
    // The first of them hopes, since all went well so far; those behind it know better.
    for _ in 0..3 {
        let create = write(&"a".into(), Some(Expect::Absent), Write::Put(b"new".to_vec(), Stamp::New));
        let Outcome::Conflict(seen) = store.commit(create).await.unwrap() else { panic!("it was taken") };
        assert_eq!((seen.version("a"), seen.revision), (taken.revision, taken.revision));
        assert_eq!(seen.records["a"].value, b"taken");
    }
    assert_eq!(value(&store, "a").await.unwrap(), Some(b"taken".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn stamps_are_kept_whatever_place_gave_them() {
    let etcd = SharedEtcd::get();
    let store = Arc::new(Etcd::open(&etcd.url("together/stamps")).await.unwrap());
    // By turns: created as expected, created by a put that would keep a stamp, and stamped whatever is there.
    let creations = names().into_iter().enumerate().map(|(number, name)| match number % 3 {
        0 => write(&name, Some(Expect::Absent), Write::Put(Vec::new(), Stamp::New)),
        1 => write(&name, None, Write::Put(Vec::new(), Stamp::Keep)),
        _ => write(&name, None, Write::Put(Vec::new(), Stamp::New)),
    });
    let created: Vec<u64> = at_once(&store, creations.collect()).await.iter().map(revision).collect();
    let renewals = names().into_iter().zip(&created).enumerate().map(|(number, (name, created))| {
        let expect = (number % 2 == 0).then_some(Expect::At(*created));
        write(&name, expect, Write::Put(b"renewed".to_vec(), Stamp::Keep))
    });
    let renewed: Vec<u64> = at_once(&store, renewals.collect()).await.iter().map(revision).collect();
    let found = store.read(&names()).await.unwrap();
    let expected: Vec<(u64, u64)> = created.into_iter().zip(renewed).collect();
    let seen: Vec<(u64, u64)> =
        names().iter().map(|name| &found.records[name]).map(|it| (it.stamp, it.version)).collect();
    assert_eq!(seen, expected);

    let deletions = names().into_iter().map(|name| write(&name, None, Write::Delete));
    assert!(at_once(&store, deletions.collect()).await.iter().all(Result::is_ok));
    let again = names()
        .into_iter()
        .map(|name| write(&name, Some(Expect::Absent), Write::Put(Vec::new(), Stamp::Keep)));
    let again: Vec<u64> = at_once(&store, again.collect()).await.iter().map(revision).collect();
    let found = store.read(&names()).await.unwrap();
    let stamps: Vec<u64> = names().iter().map(|name| found.records[name].stamp).collect();
    assert_eq!(stamps, again, "nothing is left of those before");
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_made_together_are_all_counted() {
    let etcd = SharedEtcd::get();
    let store = Arc::new(Etcd::open(&etcd.url("together/sum")).await.unwrap());
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut seen = store.read(&["sum".into()]).await.unwrap();
            loop {
                let sum = seen.records.get("sum").map_or(0, |record| record.value[0]);
                let expect = Some(Expect::seen(seen.version("sum")));
                let txn = write(&"sum".into(), expect, Write::Put(vec![sum + 1], Stamp::Keep));
                match store.commit(txn).await.unwrap() {
                    Outcome::Committed(_) => return,
                    Outcome::Conflict(now) => seen = now,
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(value(&*store, "sum").await.unwrap(), Some(vec![16]));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_home_too_a_server_that_was_killed_is_found_again() {
    let mut etcd = Cluster::start();
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    let before = commit(&store, put("a", "1")).await.unwrap();
    etcd.kill(0);
    assert_eq!(store.read(&["a".into()]).await.unwrap_err().kind(), Kind::Unavailable);
    let error = commit(&store, put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "it can't have been carried out: {error}");
    etcd.restart(0);
    assert_eq!(eventually(async || value(&store, "a").await).await, Some(b"1".to_vec()));
    assert!(commit(&store, put("a", "3")).await.unwrap().revision > before.revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_stopped_server_what_was_sent_is_unknown_and_what_had_no_turn_was_not_sent() {
    let etcd = Cluster::start();
    let store = Arc::new(Etcd::open(&etcd.url("bell")).await.unwrap());
    etcd.signal(0, Signal::STOP);
    let txns = names().iter().map(|name| put(name.as_str(), "x")).collect();
    let outcomes = at_once(&store, txns).await;
    let kinds: Vec<Kind> = outcomes.into_iter().map(|outcome| outcome.unwrap_err().kind()).collect();
    let (unknown, unsent): (Vec<Kind>, Vec<Kind>) =
        kinds.into_iter().partition(|kind| *kind == Kind::Unknown);
    assert!(!unknown.is_empty(), "those who went first may have reached the server");
    assert!(!unsent.is_empty(), "so many can't have gone together");
    assert!(unsent.iter().all(|kind| *kind == Kind::Unavailable), "{unsent:?}");
    etcd.signal(0, Signal::CONT);
    eventually(async || commit(&*store, put("a", "1")).await).await;
}
