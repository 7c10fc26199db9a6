//! Stores whose node has to be found: behind sentinels, and in a cluster.

use bell_e2e::{Redis, Sentinel, free_port};
use bell_store::info::FailOver;
use bell_store::{Kind, Store};
use bell_store_redis::RedisStore;

use crate::support::{commit, eventually, head_part, put, until, value};

#[tokio::test]
async fn sentinels_name_the_primary() {
    let primary = Redis::start();
    let sentinel = Sentinel::start("locks", &primary);
    let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/locks", free_port(), sentinel.port());
    let store = RedisStore::open(&url).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    let direct = RedisStore::open(&primary.url("bell")).await.unwrap();
    assert_eq!(value(&direct, "x").await.as_deref(), Some("1"));
    assert!(store.info().warnings.iter().any(|warning| warning.words.contains("asynchronous")));
    assert_eq!((store.info().fail_over, direct.info().fail_over), (FailOver::Loses, FailOver::None));
}

#[tokio::test]
async fn a_service_that_the_sentinels_do_not_know_is_invalid() {
    let primary = Redis::start();
    let sentinel = Sentinel::start("locks", &primary);
    let error =
        RedisStore::open(&format!("redis+sentinel://127.0.0.1:{}/other", sentinel.port())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("no service other"), "{error}");
}

#[tokio::test]
async fn a_fail_over_is_followed_and_refuses_commits_until_the_epoch_is_raised() {
    let mut primary = Redis::start();
    let port = primary.port().to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    let sentinel = Sentinel::start("locks", &primary);
    let store =
        RedisStore::open(&format!("redis+sentinel://127.0.0.1:{}/locks", sentinel.port())).await.unwrap();
    let before = commit(&store, put("x", "1")).await.unwrap();
    until(|| head_part(&replica, "bell", "revision") == before.revision.to_string()).await;
    until(|| sentinel.run(&["SENTINEL", "REPLICAS", "locks"]).starts_with('1')).await;
    primary.kill();
    let refused = eventually(async || match store.commit(put("x", "2")).await {
        Err(error) if error.kind() == Kind::Rewound => Ok(error),
        Err(error) => Err(error),
        Ok(outcome) => panic!("not refused after a fail-over: {outcome:?}"),
    })
    .await;
    assert!(refused.advice().contains("raise-epoch"));
    store.raise_epoch().await.unwrap();
    assert!(commit(&store, put("x", "2")).await.unwrap().revision > before.revision);
    assert_eq!(replica.run(&["HGET", "{bell}:meta", "replicated"]), "1");
}

/// Two nodes that have half of the slots each.
fn cluster() -> [Redis; 2] {
    let nodes = [(); 2].map(|()| {
        let bus = free_port().to_string();
        (Redis::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]), bus)
    });
    for ((node, _), (first, last)) in nodes.iter().zip([("0", "8191"), ("8192", "16383")]) {
        assert_eq!(node.run(&["CLUSTER", "ADDSLOTSRANGE", first, last]), "OK");
    }
    let [(one, _), (two, bus)] = &nodes;
    one.run(&["CLUSTER", "MEET", "127.0.0.1", &two.port().to_string(), bus]);
    nodes.map(|(node, _)| node)
}

#[tokio::test]
async fn a_store_in_a_cluster_is_found_from_any_node() {
    let nodes = cluster();
    for node in &nodes {
        until(|| node.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok")).await;
    }
    // Prefixes on both halves.
    for prefix in ["a", "b", "c", "d"] {
        let at = |node: &Redis| format!("redis+cluster://127.0.0.1:{}?prefix={prefix}", node.port());
        let (one, two) = (
            RedisStore::open(&at(&nodes[0])).await.unwrap(),
            RedisStore::open(&at(&nodes[1])).await.unwrap(),
        );
        commit(&one, put("x", prefix)).await.unwrap();
        assert_eq!(value(&two, "x").await.as_deref(), Some(prefix));
    }
    let keys = nodes.each_ref().map(|node| node.run(&["DBSIZE"]));
    assert!(keys.iter().all(|keys| keys != "0"), "one node has them all: {keys:?}");
}

#[tokio::test]
async fn a_cluster_s_node_that_has_not_our_slot_says_how_to_write_the_url() {
    let nodes = cluster();
    for node in &nodes {
        until(|| node.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok")).await;
    }
    let mut refused = 0;
    for node in &nodes {
        if let Err(error) = RedisStore::open(&node.url("a")).await {
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
            assert!(error.advice().contains("redis+cluster://"), "{}", error.advice());
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
}
