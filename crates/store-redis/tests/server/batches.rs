//! Commits that wait together go together.

use std::sync::Arc;
use std::time::Duration;

use bell_e2e::Redis;
use bell_store::{Kind, Outcome, Store};
use bell_store_redis::RedisStore;
use rustix::process::Signal;

use crate::support::{commit, put, replace};

/// How often the server has run a script.
fn scripts_run(server: &Redis) -> u64 {
    let stats = server.run(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()).and_then(|calls| calls.parse().ok()).unwrap()
}

#[tokio::test]
async fn commits_that_wait_together_are_one_request_and_have_an_outcome_each() {
    const COMMITS: u64 = 40;
    let server = Redis::start();
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    let taken = commit(&*store, put("taken", "1")).await.unwrap();
    let before = scripts_run(&server);
    server.signal(Signal::STOP);
    let mut asked = Vec::new();
    for number in 0..COMMITS {
        let store = Arc::clone(&store);
        // Every other one expects that nothing is there.
        let txn = if number % 2 == 0 { put(&format!("r{number}"), "1") } else { replace("taken", 0, "2") };
        asked.push(tokio::spawn(async move { store.commit(txn).await }));
        tokio::task::yield_now().await;
    }
    server.signal(Signal::CONT);
    let mut revisions = Vec::new();
    for (number, asked) in asked.into_iter().enumerate() {
        match asked.await.unwrap().unwrap() {
            Outcome::Committed(committed) if number % 2 == 0 => revisions.push(committed.revision),
            Outcome::Conflict(found) if number % 2 == 1 => {
                assert_eq!(found.version("taken"), taken.revision);
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    assert!(revisions.is_sorted_by(|earlier, later| earlier < later), "{revisions:?}");
    // The first went alone or with a few, the others together. Every three seconds the clock is looked at.
    let requests = scripts_run(&server) - before;
    assert!(requests < COMMITS / 2, "{requests} requests");
}

#[tokio::test]
async fn each_commit_of_a_batch_sees_what_those_before_it_wrote() {
    let server = Redis::start();
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    server.signal(Signal::STOP);
    let mut asked = Vec::new();
    for number in 0..10 {
        let store = Arc::clone(&store);
        asked.push(tokio::spawn(async move { store.commit(replace("x", 0, &number.to_string())).await }));
        tokio::task::yield_now().await;
    }
    server.signal(Signal::CONT);
    let mut winners = 0;
    for asked in asked {
        winners += u32::from(matches!(asked.await.unwrap().unwrap(), Outcome::Committed(_)));
    }
    assert_eq!(winners, 1, "of many who create a record one does");
}

#[tokio::test]
async fn commits_that_were_not_sent_wait_for_the_next_connection_and_share_its_fate() {
    let mut server = Redis::start();
    let store = Arc::new(RedisStore::open(&server.url("a")).await.unwrap());
    server.signal(Signal::STOP);
    let ask = |name: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.commit(put(name, "1")).await })
    };
    let sent = ask("sent");
    // Nobody can tell when a request to a stopped server is on the way; it is by far within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let unsent = ask("unsent");
    tokio::task::yield_now().await;
    server.kill();
    assert_eq!(sent.await.unwrap().unwrap_err().kind(), Kind::Unknown, "it may have happened");
    assert_eq!(unsent.await.unwrap().unwrap_err().kind(), Kind::Unavailable, "it has not");
}
