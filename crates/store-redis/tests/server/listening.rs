//! Only what somebody listens to is told, and whoever listens is told from then on.

use std::sync::Arc;

use bell_e2e::Redis;
use bell_store::{Store, Watch};
use bell_store_redis::RedisStore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{PATIENCE, commit, put, until};

/// How often the server was told to publish something.
fn told(server: &Redis) -> u64 {
    let stats = server.run(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Waits for a change of a record that is not there, the first to listen to anything.
async fn wait_for(server: &Redis, store: &Arc<RedisStore>, name: &'static str) -> JoinHandle<()> {
    let store = Arc::clone(store);
    let waiting = tokio::spawn(async move {
        store.changed(&Watch::Names(vec![(name.into(), 0)])).await.unwrap();
    });
    until(|| server.run(&["HEXISTS", "{a}:meta", "topics"]) == "1").await;
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_listens_to_is_not_told() {
    let server = Redis::start();
    let (ours, other) = (
        Arc::new(RedisStore::open(&server.url("a")).await.unwrap()),
        RedisStore::open(&server.url("a")).await.unwrap(),
    );
    commit(&other, put("k/x", "1")).await.unwrap();
    assert_eq!(told(&server), 0);
    let waiting = wait_for(&server, &ours, "k/y").await;
    // The other handle knows an older list, and is put right.
    commit(&other, put("n/x", "1")).await.unwrap();
    assert_eq!(told(&server), 0, "of another topic");
    commit(&other, put("k/y", "1")).await.unwrap();
    timeout(PATIENCE, waiting).await.expect("heard").unwrap();
    assert_eq!(told(&server), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_is_told_though_the_list_was_lost() {
    let server = Redis::start();
    let ours = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    let waiting = wait_for(&server, &ours, "k/x").await;
    // The store is made anew under those who have it open, with other listeners.
    server.run(&["FLUSHALL"]);
    let other = RedisStore::open(&server.url("a")).await.unwrap();
    commit(&other, put("k/x", "1")).await.unwrap();
    timeout(PATIENCE, waiting).await.expect("heard, if only at the next look").unwrap();
}

#[tokio::test]
async fn with_very_many_topics_everything_is_told() {
    const TOPICS: usize = 70;
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    for number in 0..TOPICS {
        let name = format!("t{number}/x");
        commit(&store, put(&name, "1")).await.unwrap();
        // It is there already, so this answers at once; and the topic is listened to.
        store.changed(&Watch::Names(vec![(name.as_str().into(), 0)])).await.unwrap();
    }
    let before = told(&server);
    commit(&store, put("other/x", "1")).await.unwrap();
    assert_eq!(told(&server) - before, 1);
}
