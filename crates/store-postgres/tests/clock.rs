//! A server whose clock is set while leases are kept by it. The function that reads the clock is replaced
//! here, since the machine's own clock is not for tests to set.

mod support;

use std::time::Duration;

use bell_store::{Outcome, Store, Txn};

use support::{Place, committed, put};

const HOUR_MS: u64 = 3_600_000;
const MOMENT_MS: u64 = 20_000;

fn set_clock(place: &Place, hours: i64) {
    place.sql(&format!(
        "CREATE OR REPLACE FUNCTION {{schema}}.wall_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
         SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + {hours} * 3600000 $$"
    ));
}

#[tokio::test]
async fn an_hour_ahead_is_noticed_with_the_next_answer_and_taken_back_for_all() {
    let place = Place::new();
    let (store, other) = (place.open().await, place.open().await);
    let before = committed(&store, put("a", "1")).await.now.as_ms();
    set_clock(&place, 1);
    assert!(store.now().await.unwrap().as_ms() < before + MOMENT_MS);
    assert!(other.now().await.unwrap().as_ms() < before + MOMENT_MS);
    assert!(place.open().await.now().await.unwrap().as_ms() < before + MOMENT_MS, "it is stored");
}

#[tokio::test]
async fn a_commit_without_a_time_does_not_make_a_jump_last() {
    let place = Place::new();
    let store = place.open().await;
    let before = committed(&store, put("a", "1")).await.now.as_ms();
    set_clock(&place, 1);
    assert!(committed(&store, put("a", "2")).await.now.as_ms() < before + MOMENT_MS);
    assert!(place.open().await.now().await.unwrap().as_ms() < before + MOMENT_MS);
}

#[tokio::test]
async fn a_commit_decided_before_a_jump_is_no_victim_of_it() {
    let place = Place::new();
    let store = place.open().await;
    let now = store.now().await.unwrap();
    set_clock(&place, 1);
    let outcome = store.commit(Txn { at: Some(now), ..put("a", "1") }).await.unwrap();
    // On a busy machine it may come too late; the answer then has the right time all the same.
    match outcome {
        Outcome::Committed(committed) => assert!(committed.now.as_ms() < now.as_ms() + MOMENT_MS),
        Outcome::Conflict(snapshot) => assert!(snapshot.now.as_ms() < now.as_ms() + MOMENT_MS),
    }
}

#[tokio::test]
async fn an_hour_back_does_not_turn_the_clock_back() {
    let place = Place::new();
    let store = place.open().await;
    committed(&store, put("a", "1")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = store.now().await.unwrap();
    set_clock(&place, -1);
    let after = store.now().await.unwrap();
    assert!(after >= before && after.as_ms() < before.as_ms() + MOMENT_MS);
    let fresh = place.open().await.now().await.unwrap();
    assert!(
        fresh.as_ms() + 10 >= after.as_ms() && fresh.as_ms() < before.as_ms() + MOMENT_MS,
        "it is stored"
    );
}

#[tokio::test]
async fn a_store_that_only_newcomers_use_goes_on_from_its_last_commit() {
    let place = Place::new();
    let last = committed(&place.open().await, put("a", "1")).await.now;
    set_clock(&place, -1);
    let store = place.open().await;
    let now = store.now().await.unwrap();
    assert!(now >= last && now.as_ms() < last.as_ms() + HOUR_MS);
    let outcome = store.commit(Txn { at: Some(now), ..put("a", "2") }).await.unwrap();
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
}
