//! The shorter way of those on the runtime that opened the store.

use std::sync::Arc;

use bell_e2e::Redis;
use bell_store::{Outcome, Store, Watch};
use bell_store_redis::RedisStore;
use rustix::process::Signal;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::support::{PATIENCE, commit, eventually, put, replace, value};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// How many connections the server has, this question's among them.
fn connections(server: &Redis) -> usize {
    server.run(&["CLIENT", "LIST"]).lines().filter(|line| line.contains("id=")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_together_have_an_outcome_each() {
    const COMMITS: u64 = 40;
    let server = Redis::start();
    let before = connections(&server);
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    assert_eq!(connections(&server) - before, 2, "the thread's, and that of this runtime");
    let taken = commit(&*store, put("taken", "1")).await.unwrap();
    server.signal(Signal::STOP);
    let mut asked = Vec::new();
    for number in 0..COMMITS {
        let store = Arc::clone(&store);
        // Every other one expects that nothing is there.
        let txn = if number % 2 == 0 { put(&format!("r{number}"), "1") } else { replace("taken", 0, "2") };
        asked.push(tokio::spawn(async move { store.commit(txn).await }));
    }
    server.signal(Signal::CONT);
    let mut revisions = std::collections::BTreeSet::new();
    for (number, asked) in asked.into_iter().enumerate() {
        match asked.await.unwrap().unwrap() {
            Outcome::Committed(committed) if number % 2 == 0 => {
                assert!(revisions.insert(committed.revision), "{committed:?} twice");
            }
            Outcome::Conflict(found) if number % 2 == 1 => {
                assert_eq!(found.version("taken"), taken.revision);
            }
            other => panic!("{number}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_logs_in_and_uses_the_database_of_the_url() {
    let server = Redis::start_with(&["--requirepass", "right"]);
    let at = |database: u8| format!("redis://:right@127.0.0.1:{}/{database}", server.port());
    let (one, two) = (RedisStore::open(&at(1)).await.unwrap(), RedisStore::open(&at(2)).await.unwrap());
    commit(&one, put("x", "1")).await.unwrap();
    assert_eq!(value(&one, "x").await.as_deref(), Some("1"));
    assert_eq!(value(&two, "x").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_larger_than_the_socket_s_buffers_arrives_whole() {
    const RECORDS: usize = 40;
    let server = Redis::start();
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    let large = |number: usize| number.to_string().repeat(400_000);
    server.signal(Signal::STOP);
    let mut asked = Vec::new();
    for number in 0..RECORDS {
        let store = Arc::clone(&store);
        asked.push(tokio::spawn(
            async move { commit(&*store, put(&format!("r{number}"), &large(number))).await },
        ));
    }
    tokio::task::yield_now().await;
    server.signal(Signal::CONT);
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
    let names: Vec<_> = (0..RECORDS).map(|number| format!("r{number}").as_str().into()).collect();
    let found = store.read(&names).await.unwrap();
    for number in 0..RECORDS {
        let record = &found.records[format!("r{number}").as_str()];
        assert!(record.value == large(number).as_bytes(), "r{number} differs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_of_the_server_the_same_handle_goes_on() {
    let mut server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    for _ in 0..2 {
        server.kill();
        server.restart();
        let found = eventually(async || Ok(store.read(&["x".into()]).await?)).await;
        assert_eq!(found.version("x"), before.revision);
    }
    let after = commit(&store, replace("x", before.revision, "2")).await.unwrap();
    assert!(after.revision > before.revision, "{after:?} after {before:?}");
}

#[test]
fn the_store_outlives_the_runtime_that_opened_it() {
    let server = Redis::start();
    let first = runtime();
    let store = first.block_on(RedisStore::open(&server.url("a"))).unwrap();
    let before = first.block_on(commit(&store, put("x", "1"))).unwrap();
    drop(first);
    let after = runtime().block_on(commit(&store, replace("x", before.revision, "2"))).unwrap();
    assert!(after.revision > before.revision);
}

#[test]
fn whoever_is_elsewhere_does_not_wait_for_a_busy_runtime() {
    let server = Redis::start();
    // It runs nothing but what it blocks on, which ends here.
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    let store = idle.block_on(RedisStore::open(&server.url("a"))).unwrap();
    let elsewhere = async { timeout(PATIENCE, commit(&store, put("x", "1"))).await.expect("an answer") };
    runtime().block_on(elsewhere).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_hears_of_what_another_handle_commits() {
    let server = Redis::start();
    let (ours, other) = (
        Arc::new(RedisStore::open(&server.url("a")).await.unwrap()),
        RedisStore::open(&server.url("a")).await.unwrap(),
    );
    for watch in [Watch::Names(vec![("k/x".into(), 0)]), Watch::Prefix("k/".to_owned(), 0)] {
        let seen = ours.read(&["k/x".into()]).await.unwrap();
        let watch = match watch {
            Watch::Names(_) => Watch::Names(vec![("k/x".into(), seen.version("k/x"))]),
            Watch::Prefix(prefix, _) => Watch::Prefix(prefix, seen.revision),
        };
        let store = Arc::clone(&ours);
        let waiting = tokio::spawn(async move { store.changed(&watch).await });
        commit(&other, put("k/x", "1")).await.unwrap();
        timeout(PATIENCE, waiting).await.expect("heard").unwrap().unwrap();
    }
}
