//! Only what somebody listens to is told, and whoever listens is told from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bell_e2e::Redis;
use bell_store::{Store, Watch};
use bell_store_redis::RedisStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
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

/// Passes connections on to the server. What the server says on the first of them is kept back once `hush` is set.
async fn proxy_to(port: u16, hush: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let own_port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for number in 0.. {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let hush = Arc::clone(&hush);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                    if number > 0 || !hush.load(Ordering::SeqCst) {
                        to_client.write_all(&buffer[..count]).await.unwrap();
                    }
                }
            });
        }
    });
    own_port
}

/// Less than the store's thread takes to find its connection dead.
const BEFORE_IT_LOOKS: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_where_the_commit_was_made_need_not_hear_of_it_from_the_server() {
    let (server, hush) = (Redis::start(), Arc::new(AtomicBool::new(false)));
    let port = proxy_to(server.port(), Arc::clone(&hush)).await;
    let url = format!("redis://127.0.0.1:{port}/0?prefix=a");
    // The thread, which hears what is told, connects first.
    let ours = Arc::new(RedisStore::open(&url).await.unwrap());
    let waiting = wait_for(&server, &ours, "k/x").await;
    commit(&*ours, put("k/y", "1")).await.unwrap();
    hush.store(true, Ordering::SeqCst);
    commit(&*ours, put("k/x", "1")).await.unwrap();
    timeout(BEFORE_IT_LOOKS, waiting).await.expect("told here").unwrap();
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
