//! Sessions of programs that are served from here: kept by whoever serves them, lost with nobody.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Session};
use bell_core::key::Key;
use bell_core::session::{Identity, SESSION_TTL};
use bell_store::memory::Memory;

const LONG: Duration = Duration::from_secs(60);

fn coord() -> Coord {
    Coord::new(Arc::new(Memory::new()))
}

/// Another process on the same store.
fn another(coord: &Coord) -> Coord {
    Coord::new(Arc::clone(coord.store()))
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

async fn open(coord: &Coord, label: &str) -> Session {
    let who = Identity { label: Some(label.to_owned()), ..Identity::default() };
    coord.open_session(who, Some(SESSION_TTL)).await.unwrap()
}

#[tokio::test]
async fn a_session_goes_on_in_the_next_process_with_what_it_holds() {
    let coord = coord();
    let session = open(&coord, "ann").await;
    let lease = coord.acquire(&session, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    let next = another(&coord);
    let resumed = next.find_session(&session.token()).await.unwrap().0;
    drop(session);
    let renewed = next.renew_key(&resumed, &lease.key, Some(lease.fence), None).await.unwrap();
    assert_eq!(renewed.fence, lease.fence);
    assert!(next.heard_of(&resumed).await.unwrap().is_empty());
}

#[tokio::test]
async fn its_own_ttl_is_stored_with_it() {
    let coord = coord();
    let session = coord.open_session(Identity::default(), Some(LONG)).await.unwrap();
    assert_eq!(another(&coord).find_session(&session.token()).await.unwrap().0.ttl(), Some(LONG));
    let detached = coord.open_session(Identity::default(), None).await.unwrap();
    coord.prolong(&detached).await.unwrap();
    coord.heard_of(&detached).await.unwrap();
    assert_eq!(another(&coord).find_session(&detached.token()).await.unwrap().0.ttl(), None);
    let usual = open(&coord, "usual").await;
    assert_eq!(another(&coord).find_session(&usual.token()).await.unwrap().0.ttl(), Some(SESSION_TTL));
}

#[tokio::test]
async fn what_an_operator_did_is_told_to_the_owner_once_and_not_to_who_keeps_it_alive() {
    let coord = coord();
    let session = open(&coord, "ann").await;
    let lease = coord.acquire(&session, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    let mail = {
        let (coord, session) = (coord.clone(), session.clone());
        async move { coord.has_mail(&session).await }
    };
    let mail = tokio::spawn(mail);
    another(&coord).break_lock(&lease.key, "it hangs", "ann").await.unwrap();
    mail.await.unwrap().unwrap();
    coord.prolong(&session).await.unwrap();
    let told = coord.heard_of(&session).await.unwrap();
    assert_eq!(
        told.iter().map(|one| (one.fence, one.reason.as_str())).collect::<Vec<_>>(),
        [(lease.fence, "it hangs")]
    );
    assert!(coord.heard_of(&session).await.unwrap().is_empty());
}

#[tokio::test]
async fn renewing_a_broken_lease_says_that_it_is_lost_and_why_whoever_has_the_key_now() {
    let coord = coord();
    let session = open(&coord, "ann").await;
    let lease = coord.acquire(&session, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    let renew =
        async |fence| coord.renew_key(&session, &lease.key, fence, None).await.unwrap_err().to_string();
    another(&coord).break_lock(&lease.key, "it hangs", "ann").await.unwrap();
    let broken = "an operator broke the lock: it hangs";
    assert_eq!(renew(Some(lease.fence)).await, broken);
    coord.heard_of(&session).await.unwrap();
    assert_eq!(renew(None).await, broken, "a heartbeat has taken it out of the record");
    let other = open(&coord, "bob").await;
    let next = coord.acquire(&other, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    assert_eq!(renew(Some(lease.fence)).await, broken);
    assert!(renew(Some(next.fence)).await.starts_with("held by bob"), "that lease was never ann's");
}

#[tokio::test]
async fn renewing_what_was_given_back_or_never_held_is_no_loss() {
    let coord = coord();
    let session = open(&coord, "ann").await;
    let lease = coord.acquire(&session, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    coord.release(&session, &lease).await.unwrap();
    for (name, fence) in [("job:a", Some(lease.fence)), ("job:a", None), ("job:never", None)] {
        let renewed = coord.renew_key(&session, &key(name), fence, None).await;
        assert!(matches!(renewed, Err(Denied::NotHeld)), "{name} {fence:?}: {renewed:?}");
    }
}

#[tokio::test]
async fn a_session_that_has_ended_is_lost() {
    let coord = coord();
    let session = open(&coord, "ann").await;
    another(&coord).end(&another(&coord).find_session(&session.token()).await.unwrap().0).await.unwrap();
    assert!(matches!(coord.prolong(&session).await, Err(Denied::Lost(_))));
    assert!(matches!(coord.heard_of(&session).await, Err(Denied::Lost(_))));
    assert!(matches!(coord.find_session(&session.token()).await, Err(Denied::Lost(_))));
    assert!(matches!(coord.acquire(&session, &Ask::new(key("job:a"))).await, Err(Denied::Lost(_))));
}

#[tokio::test]
async fn a_request_that_is_handed_on_keeps_its_place_and_can_be_given_up_by_the_next_process() {
    let coord = coord();
    let [ann, bob, cyd] = ["ann", "bob", "cyd"].map(|label| (label, coord.clone()));
    let (ann, bob, cyd) = (open(&ann.1, ann.0).await, open(&bob.1, bob.0).await, open(&cyd.1, cyd.0).await);
    let held = coord.acquire(&ann, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    let asks = [&bob, &cyd].map(|_| Ask::new(key("job:a")).wait(LONG));
    for (session, ask) in [&bob, &cyd].into_iter().zip(&asks) {
        let queued = async {
            while coord
                .show(&key("job:a"))
                .await
                .unwrap()
                .waiting
                .iter()
                .all(|one| one.session != *session.id())
            {
                tokio::task::yield_now().await;
            }
        };
        assert!(coord.acquire_until(session, ask, queued).await.unwrap().is_none());
    }
    let next = another(&coord);
    assert_eq!(next.show(&key("job:a")).await.unwrap().waiting.len(), 2);
    let bob = next.find_session(&bob.token()).await.unwrap().0;
    next.give_up(&bob, &asks[0].request).await.unwrap();
    next.give_up(&bob, &asks[0].request).await.unwrap();
    next.release(&ann, &held).await.unwrap();
    let cyd = next.find_session(&cyd.token()).await.unwrap().0;
    next.acquire(&cyd, &asks[1]).await.unwrap();
    assert_eq!(next.show(&key("job:a")).await.unwrap().holders[0].session, *cyd.id());
}

#[tokio::test]
async fn what_was_granted_to_a_request_that_is_given_up_is_given_back() {
    let coord = coord();
    let (ann, bob) = (open(&coord, "ann").await, open(&coord, "bob").await);
    let held = coord.acquire(&ann, &Ask::new(key("job:a"))).await.unwrap().remove(0);
    let ask = Ask::new(key("job:a")).wait(LONG);
    let queued = async {
        while coord.show(&key("job:a")).await.unwrap().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    assert!(coord.acquire_until(&bob, &ask, queued).await.unwrap().is_none());
    let next = another(&coord);
    let session = next.find_session(&bob.token()).await.unwrap().0;
    // Granted by the release, with nobody there to take it.
    next.release(&ann, &held).await.unwrap();
    assert_eq!(next.show(&key("job:a")).await.unwrap().holders.len(), 1);
    next.give_up(&session, &ask.request).await.unwrap();
    assert!(next.show(&key("job:a")).await.unwrap().holders.is_empty());
}
