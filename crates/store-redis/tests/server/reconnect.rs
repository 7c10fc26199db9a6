//! A server that goes away and comes back, with every commit synced: nothing is lost, and nobody needs help.

use std::sync::Arc;

use bell_e2e::Redis;
use bell_store::{Kind, Store, Watch};
use bell_store_redis::RedisStore;
use rustix::process::Signal;
use tokio::time::timeout;

use crate::support::{PATIENCE, commit, eventually, put, replace, value};

fn durable() -> Redis {
    Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
}

#[tokio::test]
async fn after_a_crash_of_a_server_that_syncs_the_same_handle_goes_on() {
    let mut server = durable();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    server.kill();
    server.restart();
    assert_eq!(eventually(async || Ok(store.read(&["x".into()]).await?)).await.version("x"), before.revision);
    let after = commit(&store, replace("x", before.revision, "2")).await.unwrap();
    assert!(after.revision > before.revision, "{after:?} after {before:?}");
    assert!(after.now >= before.now);
}

#[tokio::test]
async fn while_the_server_is_gone_everything_fails_at_once_as_unavailable() {
    let mut server = durable();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    server.kill();
    // The first to notice may have had its request on the way.
    let _ = store.commit(put("x", "1")).await;
    let answers = async {
        assert_eq!(store.read(&["x".into()]).await.unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(store.now().await.unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(store.scan("", "", 1).await.unwrap_err().kind(), Kind::Unavailable);
        let refused = store.commit(put("x", "1")).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Unavailable);
        assert!(!refused.advice().is_empty());
    };
    timeout(PATIENCE, answers).await.expect("an answer");
    let watch = Watch::Names(vec![("x".into(), 0)]);
    assert_eq!(
        timeout(PATIENCE, store.changed(&watch)).await.expect("an answer").unwrap_err().kind(),
        Kind::Unavailable
    );
}

#[tokio::test]
async fn a_commit_that_the_server_does_not_answer_is_unknown_and_may_have_happened() {
    let server = durable();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    server.signal(Signal::STOP);
    let unknown = store.commit(put("x", "1")).await.unwrap_err();
    assert_eq!(unknown.kind(), Kind::Unknown, "{unknown}");
    server.signal(Signal::CONT);
    eventually(async || store.now().await).await;
    // It was on its way when the server stopped, so this server got it.
    assert_eq!(value(&store, "x").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn those_who_wait_hear_of_changes_made_after_the_server_came_back() {
    let mut server = durable();
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    let waiting = Arc::clone(&store);
    let waiter = tokio::spawn(async move {
        while waiting.read(&["x".into()]).await.map_or(0, |found| found.version("x")) == 0 {
            let _ = waiting.changed(&Watch::Names(vec![("x".into(), 0)])).await;
        }
    });
    server.restart();
    let other = eventually(async || RedisStore::open(&server.url("a")).await).await;
    commit(&other, put("x", "1")).await.unwrap();
    timeout(PATIENCE, waiter).await.expect("the change is heard of").unwrap();
}

#[tokio::test]
async fn a_change_made_while_a_connection_is_replaced_is_not_slept_over() {
    let server = durable();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    for round in 0..20 {
        let seen = store.read(&["x".into()]).await.unwrap().version("x");
        let watch = Watch::Names(vec![("x".into(), seen)]);
        let ((), ()) = tokio::join!(
            async {
                while eventually(async || store.read(&["x".into()]).await).await.version("x") == seen {
                    let _ = timeout(PATIENCE, store.changed(&watch)).await.expect("the change is heard of");
                }
            },
            async {
                server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
                let other = RedisStore::open(&server.url("a")).await.unwrap();
                commit(&other, put("x", &round.to_string())).await.unwrap();
            }
        );
    }
}

#[test]
fn a_store_outlives_the_runtime_that_opened_it_and_serves_others() {
    let server = Redis::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let first = runtime();
    let store = first.block_on(RedisStore::open(&server.url("a"))).unwrap();
    drop(first);
    runtime().block_on(commit(&store, put("x", "1"))).unwrap();
    assert_eq!(runtime().block_on(value(&store, "x")).as_deref(), Some("1"));
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    server.run(&["SCRIPT", "FLUSH"]);
    commit(&store, put("x", "1")).await.unwrap();
    server.run(&["SCRIPT", "FLUSH"]);
    assert_eq!(value(&store, "x").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_commit_and_a_read_are_one_request_each() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let requests = || {
        let stats = server.run(&["INFO", "commandstats"]);
        let calls =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0,");
        calls.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    commit(&store, put("x", "1")).await.unwrap();
    let before = requests();
    for _ in 0..50 {
        commit(&store, put("x", "1")).await.unwrap();
        store.read(&["x".into()]).await.unwrap();
    }
    // The connection is looked after every few seconds.
    let extra = requests() - before - 100;
    assert!(extra <= 20, "{extra} requests more than commits and reads");
}
