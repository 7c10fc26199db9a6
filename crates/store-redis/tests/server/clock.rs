//! The server's clock jumps. The tests move the offset that is added to it: to every process this looks as if the
//! clock itself had been set.

use std::time::Duration;

use bell_e2e::Redis;
use bell_store::clock::boottime;
use bell_store::{Outcome, Store, Timestamp, Txn};
use bell_store_redis::RedisStore;

use crate::support::{PATIENCE, commit, head_part, put, set_head};

const HOUR_MS: i64 = 3_600_000;

/// More than passes while a test runs, and far less than the jumps.
const WHILE: Duration = Duration::from_secs(600);

fn jump(server: &Redis, by_ms: i64) {
    set_head(server, "a", "offset", &format!("offset + {by_ms}"));
}

fn offset(server: &Redis) -> i64 {
    head_part(server, "a", "offset").parse().unwrap()
}

async fn opened() -> (Redis, RedisStore, Timestamp) {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let now = store.now().await.unwrap();
    (server, store, now)
}

#[tokio::test]
async fn a_jump_forward_is_not_followed() {
    let (server, store, before) = opened().await;
    jump(&server, HOUR_MS);
    let after = store.now().await.unwrap();
    assert!(after >= before && after < before + WHILE, "{after:?} after {before:?}");
    assert!(offset(&server).abs() < HOUR_MS / 2, "it was taken out for everybody");
    let newcomer = RedisStore::open(&server.url("a")).await.unwrap();
    assert!(newcomer.now().await.unwrap() < before + WHILE);
}

#[tokio::test]
async fn reads_scans_and_conflicts_show_no_jump() {
    let (server, store, before) = opened().await;
    jump(&server, HOUR_MS);
    assert!(store.read(&["x".into()]).await.unwrap().now < before + WHILE);
    jump(&server, HOUR_MS);
    assert!(store.scan("", "", 1).await.unwrap().now < before + WHILE);
    jump(&server, HOUR_MS);
    let stale = Txn { at: Some(before - WHILE), ..put("x", "1") };
    match store.commit(stale).await.unwrap() {
        Outcome::Conflict(found) => assert!(found.now < before + WHILE, "{:?}", found.now),
        Outcome::Committed(committed) => panic!("{committed:?}"),
    }
    jump(&server, HOUR_MS);
    assert!(commit(&store, put("x", "1")).await.unwrap().now < before + WHILE);
    assert!(store.now().await.unwrap() < before + WHILE);
}

#[tokio::test]
async fn a_commit_decided_before_a_jump_conflicts() {
    let (server, store, _) = opened().await;
    let at = store.now().await.unwrap();
    jump(&server, HOUR_MS);
    let outcome = store.commit(Txn { at: Some(at), ..put("x", "1") }).await.unwrap();
    let Outcome::Conflict(found) = outcome else { panic!("committed over a jump: {outcome:?}") };
    assert!(found.now < at + WHILE);
    assert_eq!(store.read(&["x".into()]).await.unwrap().version("x"), 0);
}

#[tokio::test]
async fn a_jump_back_neither_takes_time_back_nor_stops_it() {
    let (server, store, _) = opened().await;
    // Recorded by this commit, so that going back shows.
    let mut now = store.now().await.unwrap();
    while let Outcome::Conflict(found) = store.commit(Txn { at: Some(now), ..put("x", "1") }).await.unwrap() {
        now = found.now;
    }
    jump(&server, -HOUR_MS);
    let after = store.now().await.unwrap();
    assert!(after >= now, "{after:?} after {now:?}");
    let give_up = boottime() + PATIENCE;
    while store.now().await.unwrap() < after + Duration::from_secs(6) {
        assert!(boottime() < give_up, "time stands still");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(offset(&server) > -HOUR_MS / 2, "it was taken out for everybody");
}

#[tokio::test]
async fn a_jump_is_noticed_by_a_process_that_asks_nothing() {
    let (server, store, before) = opened().await;
    jump(&server, HOUR_MS);
    let give_up = boottime() + PATIENCE;
    while offset(&server) > HOUR_MS / 2 {
        assert!(boottime() < give_up, "nobody noticed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(store.now().await.unwrap() < before + WHILE);
}

#[tokio::test]
async fn time_that_others_have_recorded_is_believed() {
    let (server, store, before) = opened().await;
    // As seen by a machine that was asleep without counting it.
    let recorded = (before + Duration::from_secs(3_600)).as_ms().to_string();
    set_head(&server, "a", "last", &recorded);
    let after = store.now().await.unwrap();
    assert!(after >= before + Duration::from_secs(3_600), "{after:?}");
    assert!(store.now().await.unwrap() >= after);
}
