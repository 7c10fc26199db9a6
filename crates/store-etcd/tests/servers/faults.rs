//! Servers that are killed, stopped and started again, and clusters that lose members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{commit, eventually, put, replace, runtime, value};
use bell_e2e::Etcd as Cluster;
use bell_store::info::FailOver;
use bell_store::{Kind, Name, Outcome, Store, Watch};
use bell_store_etcd::Etcd;
use rustix::process::Signal;

/// Far longer than anything here takes on a busy machine: reached only if a wake-up never comes.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_server_that_was_killed_is_found_again_with_everything_it_answered() {
    let mut etcd = Cluster::start();
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    let before = commit(&store, put("a", "1")).await.unwrap();
    etcd.kill(0);
    let error = store.read(&["a".into()]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(error.to_string().contains(&etcd.address(0)), "{error}");
    let error = commit(&store, put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "it can't have been carried out: {error}");
    etcd.restart(0);
    let found = eventually(async || store.read(&["a".into()]).await).await;
    assert_eq!(found.records["a"].value, b"1");
    assert_eq!((found.records["a"].version, found.revision), (before.revision, before.revision));
    assert!(found.now >= before.now, "time went back over a restart");
    let after = commit(&store, put("a", "3")).await.unwrap();
    assert!(after.revision > before.revision);
}

#[tokio::test]
async fn whoever_waits_hears_of_a_change_made_after_a_restart() {
    let mut etcd = Cluster::start();
    let waiter = Arc::new(Etcd::open(&etcd.url("bell")).await.unwrap());
    let writer = Etcd::open(&etcd.url("bell")).await.unwrap();
    let waiting = tokio::spawn({
        let waiter = Arc::clone(&waiter);
        async move {
            let watch = Watch::Names(vec![("door".into(), 0)]);
            // While nobody answers a wait fails; whoever waits tries again.
            while waiter.read(&["door".into()]).await.map_or(true, |seen| seen.version("door") == 0) {
                if waiter.changed(&watch).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    });
    etcd.kill(0);
    etcd.restart(0);
    eventually(async || commit(&writer, put("door", "open")).await).await;
    tokio::time::timeout(LONG, waiting).await.expect("heard").unwrap();
}

#[tokio::test]
async fn what_a_stopped_server_was_asked_is_unknown_until_it_goes_on() {
    let etcd = Cluster::start();
    let store = Arc::new(Etcd::open(&etcd.url("bell")).await.unwrap());
    commit(&*store, put("a", "1")).await.unwrap();
    etcd.signal(0, Signal::STOP);
    let (written, read) = tokio::join!(commit(&*store, put("a", "2")), value(&*store, "a"));
    assert_eq!(written.unwrap_err().kind(), Kind::Unknown, "it may have reached the server");
    assert_eq!(read.unwrap_err().kind(), Kind::Unavailable);
    etcd.signal(0, Signal::CONT);
    let found = eventually(async || value(&*store, "a").await).await.unwrap();
    assert!([b"1", b"2"].contains(&found.as_slice().try_into().unwrap()));
    eventually(async || commit(&*store, put("a", "3")).await).await;
    let by_others = Etcd::open(&etcd.url("bell")).await.unwrap();
    let watch = Watch::Names(vec![("b".into(), 0)]);
    let (heard, _) = tokio::join!(tokio::time::timeout(LONG, store.changed(&watch)), async {
        commit(&by_others, put("b", "1")).await.unwrap()
    });
    heard.expect("changes are told again").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_loses_its_leader_goes_on_and_loses_nothing() {
    let mut etcd = Cluster::start_with(3, &["--pre-vote"]);
    let store = Arc::new(Etcd::open(&etcd.url("bell")).await.unwrap());
    assert!(store.info().warnings.is_empty(), "{:?}", store.info().warnings);
    assert_eq!(store.info().fail_over, FailOver::Kept);
    let filling = tokio::spawn(fill(Arc::clone(&store)));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let leader = etcd.leader();
    etcd.kill(leader);
    let answered = filling.await.unwrap();
    assert!(answered.windows(2).all(|pair| pair[0].1 < pair[1].1), "revisions rise");
    let names: Vec<Name> = answered.iter().map(|(name, _)| name.clone()).collect();
    let found = eventually(async || store.read(&names).await).await;
    let versions: BTreeMap<&Name, u64> = found.records.iter().map(|(name, it)| (name, it.version)).collect();
    for (name, revision) in &answered {
        assert_eq!(versions.get(name), Some(revision), "{name} was answered");
    }
    etcd.kill((leader + 1) % 3);
    let error = store.read(&names).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "one of three is no majority: {error}");
    etcd.kill((leader + 2) % 3);
}

/// Commits until it has succeeded for a good while after something failed, or for long if nothing does.
/// Answers what was answered.
async fn fill(store: Arc<Etcd>) -> Vec<(Name, u64)> {
    let (mut answered, mut since_failure) = (Vec::new(), None);
    for number in 0..900 {
        let name = Name::from(format!("record/{number:04}"));
        match commit(&*store, put(name.as_str(), "x")).await {
            Ok(committed) => answered.push((name, committed.revision)),
            Err(error) => {
                assert!([Kind::Unknown, Kind::Unavailable].contains(&error.kind()), "{error}");
                since_failure = Some(answered.len());
            }
        }
        if since_failure.is_some_and(|then| answered.len() >= then + 20) {
            return answered;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    answered
}

#[tokio::test]
async fn a_cluster_that_forgot_what_it_answered_is_not_trusted() {
    let mut etcd = Cluster::start();
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    for _ in 0..5 {
        commit(&store, put("a", "1")).await.unwrap();
    }
    etcd.kill(0);
    std::fs::remove_dir_all(etcd.data(0).join("member")).unwrap();
    etcd.restart(0);
    let error = loop {
        match store.read(&["a".into()]).await {
            Err(error) if error.kind() != Kind::Unavailable => break error,
            Err(_) => {}
            Ok(seen) => panic!("it was trusted: {seen:?}"),
        }
    };
    assert_eq!(error.kind(), Kind::Rewound, "{error}");
    assert!(!error.advice().is_empty());
}

#[test]
fn a_store_outlives_the_executor_it_was_opened_on_and_serves_several() {
    let etcd = Cluster::start();
    let first = runtime();
    let store = Arc::new(first.block_on(Etcd::open(&etcd.url("bell"))).unwrap());
    first.block_on(commit(&*store, put("a", "1"))).unwrap();
    drop(first);
    let threads: Vec<_> = (0..4)
        .map(|number: u32| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                runtime().block_on(async {
                    commit(&*store, put(&number.to_string(), "x")).await.unwrap();
                    value(&*store, "a").await.unwrap()
                })
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Some(b"1".to_vec()));
    }
}

#[tokio::test]
async fn a_waiter_is_not_woken_by_what_others_do_in_the_same_cluster() {
    let etcd = Cluster::start();
    let (store, other) =
        (Etcd::open(&etcd.url("one")).await.unwrap(), Etcd::open(&etcd.url("two")).await.unwrap());
    let seen = commit(&store, put("a", "1")).await.unwrap().revision;
    let watch = Watch::Prefix(String::new(), seen);
    let mut waiting = Box::pin(store.changed(&watch));
    for _ in 0..20 {
        commit(&other, put("a", "1")).await.unwrap();
    }
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "nothing of this store has changed");
    assert_eq!(store.read(&[]).await.unwrap().revision, seen);
    assert!(matches!(store.commit(replace("a", seen, "2")).await.unwrap(), Outcome::Committed(_)));
    tokio::time::timeout(LONG, waiting).await.expect("heard").unwrap();
}
