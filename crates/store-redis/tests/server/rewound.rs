//! A server that may have lost what it acknowledged: no commit until an operator has taken note, and no revision
//! twice.

use std::time::Duration;

use bell_e2e::Redis;
use bell_store::info::FailOver;
use bell_store::{Error, Kind, Store};
use bell_store_redis::RedisStore;

use crate::support::{PATIENCE, commit, eventually, head_part, put, set_head, told, until, value};

const SYNCED: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// What a refused commit says, once the store answers at all.
async fn refused(store: &RedisStore) -> Error {
    eventually(async || match store.commit(put("x", "2")).await {
        Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::Unknown) => Err(error),
        Err(error) => Ok(error),
        Ok(outcome) => panic!("not refused: {outcome:?}"),
    })
    .await
}

fn is_rewound(error: &Error) {
    assert_eq!(error.kind(), Kind::Rewound, "{error}");
    assert!(error.advice().contains("bell store raise-epoch --yes"), "{}", error.advice());
}

#[tokio::test]
async fn a_restart_that_emptied_the_server_refuses_commits_until_the_epoch_is_raised() {
    let mut server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    server.restart();
    is_rewound(&refused(&store).await);
    is_rewound(&refused(&store).await);
    let raised = store.raise_epoch().await.unwrap();
    assert!(raised > before.revision);
    let after = commit(&store, put("x", "2")).await.unwrap();
    assert!(after.revision > raised);
}

#[tokio::test]
async fn a_restart_of_a_server_that_does_not_sync_refuses_commits_also_to_newcomers() {
    let mut server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    server.restart();
    let newcomer = RedisStore::open(&server.url("a")).await.unwrap();
    assert!(
        newcomer.info().warnings[0].words.contains("may have gone back"),
        "{:?}",
        newcomer.info().warnings
    );
    assert_eq!(value(&newcomer, "x").await.as_deref(), Some("1"));
    is_rewound(&refused(&newcomer).await);
    is_rewound(&refused(&store).await);
    assert_eq!(value(&newcomer, "x").await.as_deref(), Some("1"), "nothing half-written");
    newcomer.raise_epoch().await.unwrap();
    for store in [&newcomer, &store] {
        assert!(commit(store, put("x", "3")).await.unwrap().revision > before.revision);
    }
}

#[tokio::test]
async fn a_restart_of_a_server_that_syncs_but_had_a_replica_refuses_commits() {
    let mut server = Redis::start_with(&SYNCED);
    let replica = replica_of(&server);
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    assert!(store.info().warnings.iter().any(|warning| warning.words.contains("asynchronous")));
    assert_eq!(store.info().fail_over, FailOver::Loses);
    commit(&store, put("x", "1")).await.unwrap();
    drop(replica);
    server.restart();
    is_rewound(&refused(&store).await);
}

#[tokio::test]
async fn a_promoted_replica_refuses_commits_and_a_raised_epoch_is_above_all_before() {
    let primary = Redis::start_with(&SYNCED);
    let replica = replica_of(&primary);
    let store = RedisStore::open(&primary.url("a")).await.unwrap();
    let mut last = commit(&store, put("x", "1")).await.unwrap();
    let there = || head_part(&replica, "a", "revision") == last.revision.to_string();
    until(there).await;
    // What the replica never gets.
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    for _ in 0..100 {
        last = commit(&store, put("x", "lost")).await.unwrap();
    }
    let store = RedisStore::open(&replica.url("a")).await.unwrap();
    is_rewound(&refused(&store).await);
    let raised = store.raise_epoch().await.unwrap();
    assert!(raised > last.revision, "{raised} is not above the lost {}", last.revision);
    assert!(commit(&store, put("x", "2")).await.unwrap().revision > raised);
}

#[tokio::test]
async fn a_store_whose_revision_is_lower_than_seen_refuses_commits() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    commit(&store, put("x", "2")).await.unwrap();
    set_head(&server, "a", "revision", &before.revision.to_string());
    is_rewound(&refused(&store).await);
    store.raise_epoch().await.unwrap();
    assert!(commit(&store, put("x", "3")).await.unwrap().revision > before.revision + 1);
}

#[tokio::test]
async fn a_store_made_anew_after_everything_was_lost_repeats_no_revision() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let mut last = 0;
    for _ in 0..100 {
        last = commit(&store, put("x", "1")).await.unwrap().revision;
    }
    drop(store);
    server.run(&["FLUSHALL"]);
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let first = commit(&store, put("x", "1")).await.unwrap().revision;
    assert!(first > last, "{first} after {last}");
}

#[tokio::test]
async fn raising_the_epoch_of_a_sound_store_does_no_harm() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    let (first, second) = (store.raise_epoch().await.unwrap(), store.raise_epoch().await.unwrap());
    assert!(before.revision < first && first < second);
    assert_eq!(value(&store, "x").await.as_deref(), Some("1"));
    assert!(commit(&store, put("x", "2")).await.unwrap().now >= before.now);
}

#[tokio::test]
async fn the_words_of_a_refusal_show_no_credentials() {
    let mut server = Redis::start_with(&["--requirepass", "hunter2"]);
    let url = format!("redis://:hunter2@127.0.0.1:{}", server.port());
    let store = RedisStore::open(&url).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    server.restart();
    let refused = refused(&store).await;
    is_rewound(&refused);
    assert!(!told(&refused).contains("hunter2"));
}

fn replica_of(primary: &Redis) -> Redis {
    let port = primary.port().to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    let give_up = bell_store::clock::boottime() + PATIENCE;
    while !replica.run(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(bell_store::clock::boottime() < give_up, "the replica does not follow");
        std::thread::sleep(Duration::from_millis(20));
    }
    replica
}
