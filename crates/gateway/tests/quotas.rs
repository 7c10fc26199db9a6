//! X20: one greedy run does not get everything.

mod support;

use bell_api::ask::{AcquireRequest, SessionRequest};
use bell_api::outcome::Outcome;
use bell_client::Failure;
use bell_core::key::Key;
use bell_gateway::limits::{HELD_MAX, HELD_PER_RUN_MAX, SESSIONS_MAX, WAITS_MAX};
use support::{Office, PATIENCE, acquire};

/// Keys of one request.
const KEYS: usize = 16;

/// That so much is too much: a refusal that says what to do, and what HTTP calls it.
fn too_many(failure: Failure) {
    let Failure::Refused(refusal) = failure else { panic!("{failure:?}") };
    assert!(refusal.message.as_ref().is_some_and(|words| words.contains("could not")), "{refusal:?}");
    assert!(refusal.hint.is_some());
    assert_eq!(refusal.outcome, Outcome::Limit, "{refusal:?}");
}

#[tokio::test]
async fn a_run_has_so_many_sessions_of_its_own_and_room_again_when_one_ends() {
    let office = Office::open().await;
    let run = office.client();
    let mut own = Vec::new();
    for _ in 0..SESSIONS_MAX {
        own.push(run.session(&SessionRequest::default()).await.unwrap());
    }
    too_many(run.session(&SessionRequest::default()).await.unwrap_err());
    own.pop().unwrap().end_session().await.unwrap();
    run.session(&SessionRequest::default()).await.unwrap();
}

#[tokio::test]
async fn a_run_has_so_many_requests_under_way_and_room_again_when_one_is_given_up() {
    let office = Office::open().await;
    let run = office.client();
    let other = run.session(&SessionRequest::default()).await.unwrap();
    other.acquire(&acquire("job:a", 0)).await.unwrap();
    let key = Key::parse("job:a").unwrap();
    let mut waits = Vec::new();
    for count in 1..=WAITS_MAX {
        let request = acquire("job:a", 600_000);
        let begun = tokio::spawn({
            let (run, request) = (run.clone(), request.clone());
            async move { run.attend(&request).await }
        });
        let queued = async {
            while office.coord.show(&key).await.unwrap().waiting.len() < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, queued).await.unwrap();
        // A call that is cut leaves its request waiting for a while.
        begun.abort();
        waits.push(request);
    }
    too_many(run.attend(&acquire("job:a", 600_000)).await.unwrap_err());
    run.leave(&waits[0].request_id).await.unwrap();
    let again = async {
        while run.attend(&acquire("job:b", 0)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
}

#[tokio::test]
async fn all_sessions_of_a_run_share_what_it_may_hold_and_another_run_is_unharmed() {
    let office = Office::open().await;
    let run = office.client();
    let hold = |number: usize| {
        let keys = (0..KEYS).map(|key| format!("job:{number}-{key}")).collect();
        AcquireRequest { keys, ..acquire("job:x", 0) }
    };
    let mut own = Vec::new();
    for number in 0..HELD_PER_RUN_MAX / KEYS {
        if number * KEYS % (HELD_MAX / 2) < KEYS {
            own.push(run.session(&SessionRequest::default()).await.unwrap());
        }
        own.last().unwrap().acquire(&hold(number)).await.unwrap();
    }
    let fresh = run.session(&SessionRequest::default()).await.unwrap();
    let (first, last) = (hold(HELD_PER_RUN_MAX), acquire("job:last", 0));
    let Failure::Refused(refusal) = fresh.acquire(&first).await.unwrap_err() else { panic!("no refusal") };
    assert_eq!(refusal.outcome, Outcome::Limit, "{refusal:?}");
    assert!(refusal.message.as_ref().unwrap().contains("this run holds 2000"), "{refusal:?}");
    let other = Office::on(&office.coord).await;
    other.client().acquire(&hold(HELD_PER_RUN_MAX + 1)).await.unwrap();
    own.pop().unwrap().end_session().await.unwrap();
    fresh.acquire(&last).await.unwrap();
}
