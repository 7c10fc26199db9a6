//! Read, decide, commit, on a store whose clock the test moves.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Keep, Lease, Session};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::Identity;
use bell_store::memory::{ManualClock, Memory};
use bell_store::{Name, Store};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn world() -> (Coord, ManualClock, Arc<Memory>) {
    let (memory, clock) = Memory::with_manual_clock();
    let store = Arc::new(memory);
    (Coord::new(store.clone()), clock, store)
}

fn detached() -> Session {
    Session::new(Identity::default(), Keep::Detached).unwrap()
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn ask(text: &str) -> Ask {
    Ask::new(key(text)).ttl(Ttl::new(MINUTE).unwrap())
}

async fn take(coord: &Coord, session: &Session, text: &str) -> Lease {
    coord.acquire(session, &ask(text)).await.unwrap().remove(0)
}

async fn names(store: &Memory) -> Vec<Name> {
    store.scan("", "", 1_000).await.unwrap().records.into_keys().collect()
}

#[tokio::test]
async fn a_lease_that_ran_out_is_free_and_its_holder_can_not_renew_it() {
    let (coord, clock, _) = world();
    let (one, two) = (detached(), detached());
    let old = take(&coord, &one, "job:a").await;
    clock.advance(MINUTE - SECOND);
    assert!(matches!(coord.acquire(&two, &ask("job:a")).await, Err(Denied::Busy(_))));
    clock.advance(SECOND);
    assert!(matches!(coord.renew(&one, &old).await, Err(Denied::NotHeld)));
    let new = take(&coord, &two, "job:a").await;
    assert!(new.fence > old.fence);
    assert!(matches!(coord.renew(&one, &old).await, Err(Denied::NotHolder(_))));
    assert!(matches!(coord.release(&one, &old).await, Err(Denied::NotHolder(_))));
    coord.renew(&two, &new).await.unwrap();
}

#[tokio::test]
async fn renewal_extends_from_now_and_keeps_the_fence() {
    let (coord, clock, _) = world();
    let (one, two) = (detached(), detached());
    let lease = take(&coord, &one, "job:a").await;
    clock.advance(MINUTE / 2);
    let renewed = coord.renew(&one, &lease).await.unwrap();
    assert_eq!(renewed.fence, lease.fence);
    clock.advance(MINUTE - SECOND);
    assert!(matches!(coord.acquire(&two, &ask("job:a")).await, Err(Denied::Busy(_))));
}

#[tokio::test]
async fn a_waiter_takes_over_when_the_holder_runs_out_although_nobody_tells_it() {
    let (coord, clock, _) = world();
    let (one, two) = (detached(), detached());
    let short = ask("job:a").ttl(Ttl::new(5 * SECOND).unwrap());
    let old = coord.acquire(&one, &short).await.unwrap().remove(0);
    let waiting = {
        let (coord, two) = (coord.clone(), two.clone());
        tokio::spawn(async move { coord.acquire(&two, &ask("job:a").wait(MINUTE * 5)).await })
    };
    while coord.show(&key("job:a")).await.unwrap().waiting.is_empty() {
        tokio::task::yield_now().await;
    }
    clock.advance(5 * SECOND);
    let lease = waiting.await.unwrap().unwrap().remove(0);
    assert!(lease.fence > old.fence);
}

#[tokio::test]
async fn nothing_is_left_in_the_store_when_a_session_ends() {
    let (coord, _, store) = world();
    let session = Session::new(Identity::default(), Keep::Attended).unwrap();
    for n in 0..100 {
        take(&coord, &session, &format!("job:{n}")).await;
    }
    assert_eq!(names(&store).await.len(), 201);
    coord.end(&session).await.unwrap();
    assert_eq!(names(&store).await, []);
    coord.end(&session).await.unwrap();
}

#[tokio::test]
async fn a_session_that_ended_gets_nothing_more() {
    let (coord, _, _) = world();
    let session = detached();
    take(&coord, &session, "job:a").await;
    coord.end(&session).await.unwrap();
    assert!(matches!(coord.acquire(&session, &ask("job:b")).await, Err(Denied::Lost(_))));
}

#[tokio::test]
async fn a_sweep_clears_away_what_ran_out_and_nothing_else() {
    let (coord, clock, store) = world();
    let (dead, alive) = (detached(), detached());
    take(&coord, &dead, "job:a").await;
    clock.advance(MINUTE);
    take(&coord, &alive, "job:b").await;
    assert_eq!(coord.sweep().await.unwrap(), 0, "a session with nothing left is given time");
    clock.advance(5 * SECOND);
    assert_eq!(coord.sweep().await.unwrap(), 1);
    let left: Vec<_> = names(&store).await.into_iter().map(|name| name.to_string()).collect();
    let session = alive.id();
    assert_eq!(
        left,
        [format!("held/{session}/job:b"), "lock/job:b".to_owned(), format!("session/{session}")]
    );
}

#[tokio::test]
async fn a_session_that_was_about_to_be_swept_lives_on_if_it_takes_something() {
    let (coord, clock, _) = world();
    let (session, other) = (detached(), detached());
    take(&coord, &session, "job:a").await;
    clock.advance(MINUTE);
    coord.sweep().await.unwrap();
    take(&coord, &session, "job:b").await;
    clock.advance(MINUTE / 2);
    assert_eq!(coord.sweep().await.unwrap(), 0);
    assert!(matches!(coord.acquire(&other, &ask("job:b")).await, Err(Denied::Busy(_))));
}

#[tokio::test]
async fn a_detached_session_outlives_its_handles() {
    let (coord, _, _) = world();
    let session = Session::new(Identity::default(), Keep::Attended).unwrap();
    take(&coord, &session, "job:a").await;
    coord.detach(&session).await.unwrap();
    drop(session);
    // The keeper's thread sees that the last handle is gone; another session's life passes through it too.
    let later = Session::new(Identity::default(), Keep::Attended).unwrap();
    take(&coord, &later, "job:b").await;
    drop(later);
    while !coord.show(&key("job:b")).await.unwrap().holders.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(coord.show(&key("job:a")).await.unwrap().holders.len(), 1);
}

#[tokio::test]
async fn another_process_acts_for_a_session_only_with_its_secret() {
    let (coord, _, _) = world();
    let session = detached();
    let lease = take(&coord, &session, "job:a").await;
    let text = session.token().expose();
    let token = bell_coord::Token::parse(&text).unwrap();
    let resumed = coord.resume(&token).await.unwrap();
    coord.renew_key(&resumed, &lease.key, None, None).await.unwrap();
    let guessed = format!("{}.{}", session.id(), "0".repeat(64));
    let guessed = bell_coord::Token::parse(&guessed).unwrap();
    assert!(matches!(coord.resume(&guessed).await, Err(Denied::Unauthorized)));
    coord.release_key(&resumed, &lease.key, None).await.unwrap();
    assert!(matches!(coord.release_key(&resumed, &lease.key, None).await, Err(Denied::NotHeld)));
}

#[tokio::test]
async fn a_session_is_used_in_one_scope_only() {
    let (coord, _, _) = world();
    let scoped = coord.scoped(coord.space().scoped("team/a").unwrap());
    let (here, there) = (detached(), detached());
    take(&coord, &here, "job:a").await;
    take(&scoped, &there, "job:a").await;
    assert!(matches!(scoped.acquire(&here, &ask("job:b")).await, Err(Denied::Invalid(_))));
}

#[tokio::test]
async fn a_listing_has_every_held_key_in_order_page_by_page() {
    let (coord, clock, _) = world();
    let (gone, session) = (detached(), detached());
    take(&coord, &gone, "job:0000-ran-out").await;
    clock.advance(MINUTE);
    let wanted: Vec<Key> = (0..25).map(|n| key(&format!("job:{n:04}"))).collect();
    for key in &wanted {
        take(&coord, &session, key.as_str()).await;
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = coord.list("job:", after.as_ref(), 10).await.unwrap();
        found.extend(page.locks.into_iter().map(|lock| lock.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, wanted);
    assert!(coord.list("other:", None, 10).await.unwrap().locks.is_empty());
}

#[tokio::test]
async fn a_cycle_longer_than_a_commit_can_expect_is_found() {
    const LENGTH: usize = 150;
    let (coord, _, _) = world();
    let sessions: Vec<Session> = (0..LENGTH).map(|_| detached()).collect();
    for (n, session) in sessions.iter().enumerate() {
        take(&coord, session, &format!("job:{n}")).await;
    }
    let mut waiting = Vec::new();
    for (n, session) in sessions.iter().enumerate().skip(1) {
        let (coord, session) = (coord.clone(), session.clone());
        let wanted = format!("job:{}", n - 1);
        waiting.push(tokio::spawn({
            let (coord, wanted) = (coord.clone(), wanted.clone());
            async move { coord.acquire(&session, &ask(&wanted).wait(MINUTE)).await.map(|_| ()) }
        }));
        while coord.show(&key(&wanted)).await.unwrap().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    let closing = coord.acquire(&sessions[0], &ask(&format!("job:{}", LENGTH - 1)).wait(MINUTE)).await;
    match closing {
        Err(Denied::Deadlock(cycle)) => assert_eq!(cycle.steps().len(), LENGTH),
        other => panic!("{other:?}"),
    }
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn exactly_one_is_refused_when_all_close_a_long_cycle_at_once() {
    const LENGTH: usize = 100;
    let (coord, _, _) = world();
    let sessions: Vec<Session> = (0..LENGTH).map(|_| detached()).collect();
    for (n, session) in sessions.iter().enumerate() {
        take(&coord, session, &format!("job:{n}")).await;
    }
    let (refused, mut refusals) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = Vec::new();
    for (n, session) in sessions.iter().enumerate() {
        let (coord, session, refused) = (coord.clone(), session.clone(), refused.clone());
        let wanted = format!("job:{}", (n + 1) % LENGTH);
        waiting.push(tokio::spawn(async move {
            let outcome = coord.acquire(&session, &ask(&wanted).wait(MINUTE)).await;
            let _ = refused.send(matches!(outcome, Err(Denied::Deadlock(_))));
        }));
    }
    assert!(refusals.recv().await.unwrap(), "one is refused");
    // Everybody else is in a queue now, or will be; a second refusal would be a second victim.
    let in_queues = || async {
        let page = coord.list("job:", None, 1_000).await.unwrap();
        page.locks.iter().map(|lock| lock.waiting.len()).sum::<usize>()
    };
    while in_queues().await < LENGTH - 1 {
        assert!(refusals.try_recv().is_err(), "a second one was refused");
        tokio::task::yield_now().await;
    }
    assert!(refusals.try_recv().is_err(), "a second one was refused");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn whoever_gives_up_is_told_who_is_in_the_way_by_then() {
    let (coord, _clock, _) = world();
    let (ann, ben, cleo) = (detached(), detached(), detached());
    let held = take(&coord, &ann, "job:a").await;
    let wait = |session: &Session, wait: Duration| {
        let (coord, session) = (coord.clone(), session.clone());
        tokio::spawn(async move { coord.acquire(&session, &ask("job:a").wait(wait)).await })
    };
    let queued = async |count: usize| {
        while coord.show(&key("job:a")).await.unwrap().waiting.len() < count {
            tokio::task::yield_now().await;
        }
    };
    let next = wait(&ben, MINUTE);
    queued(1).await;
    // Long enough to be in the queue before it is over, however busy the machine.
    let impatient = wait(&cleo, SECOND * 3);
    queued(2).await;
    coord.release(&ann, &held).await.unwrap();
    next.await.unwrap().unwrap();
    let Err(Denied::TimedOut(busy)) = impatient.await.unwrap() else { panic!("it had a time limit") };
    let holders: Vec<_> = busy.holders.iter().map(|holder| &holder.session).collect();
    assert_eq!((busy.key, holders, busy.waiting), (key("job:a"), vec![ben.id()], 0));
}
