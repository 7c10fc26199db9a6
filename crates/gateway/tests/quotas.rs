//! X20: one greedy run does not get everything.

mod support;

use bell_api::ask::SessionRequest;
use bell_client::Failure;
use bell_core::key::Key;
use bell_gateway::limits::{SESSIONS_MAX, WAITS_MAX};
use support::{Office, PATIENCE, acquire};

/// That so much is too much: a refusal that says what to do, and what HTTP calls it.
fn too_many(failure: Failure) {
    let Failure::Refused(refusal) = failure else { panic!("{failure:?}") };
    assert!(refusal.message.as_ref().is_some_and(|words| words.contains("could not")), "{refusal:?}");
    assert!(refusal.hint.is_some());
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
