//! Several processes on one store.

use std::process::{Child, Command, Stdio};

use bell_e2e::Redis;
use bell_store::{Outcome, Store};
use bell_store_redis::RedisStore;

use crate::support::{replace, value};

/// Names the store to a second process.
const URL: &str = "BELL_TEST_REDIS_URL";
const PROCESSES: usize = 4;
const STEPS: usize = 100;

#[tokio::test]
async fn no_increment_of_many_processes_is_lost() {
    let server = Redis::start();
    let url = server.url("a");
    let children: Vec<Child> = (0..PROCESSES).map(|_| second_process_at(&url)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = RedisStore::open(&url).await.unwrap();
    assert_eq!(value(&store, "count").await, Some((PROCESSES * STEPS).to_string()));
}

/// Played by a second process; nothing in the process of the tests.
#[tokio::test]
async fn second_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = RedisStore::open(&url).await.unwrap();
    for _ in 0..STEPS {
        let mut found = store.read(&["count".into()]).await.unwrap();
        loop {
            let record = found.records.get("count");
            let count =
                record.map_or(0, |record| String::from_utf8_lossy(&record.value).parse::<u64>().unwrap());
            let txn = replace("count", found.version("count"), &(count + 1).to_string());
            match store.commit(txn).await.unwrap() {
                Outcome::Committed(_) => break,
                Outcome::Conflict(now) => found = now,
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this test is about processes")]
fn second_process_at(url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["processes::second_process", "--exact"]).env(URL, url).stdout(Stdio::null());
    command.spawn().unwrap()
}
