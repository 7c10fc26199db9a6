//! L2–L5: one holder, rising fences, re-entrancy, answers at once.

use std::sync::Arc;
use std::time::Duration;

use bell_core::acquire::Acquired;
use bell_core::keep::Kept;
use bell_core::lock::Mode;

use crate::support::names::{TTL, ask, key, new_session, session};
use crate::support::op::Op;
use crate::support::talk::Vary;
use crate::support::world::{Conflict, World};

#[test]
fn a_free_key_is_granted_with_a_fence() {
    let mut world = World::with(&["ann"]);
    let lease = world.take(ask("ann", "r1", &["a"])).remove(0);
    assert_eq!(lease.key, key("a"));
    assert_eq!(lease.mode, Mode::Exclusive);
    assert_eq!(lease.since, world.now);
    assert_eq!(lease.expires, world.now + TTL);
    assert_eq!(lease.fence, world.fence("ann", "a"));
    assert!(!lease.already_held);
}

#[test]
fn a_held_key_is_busy_and_names_its_holder() {
    let mut world = World::with(&["ann", "bob"]);
    let lease = world.take(ask("ann", "r1", &["a"])).remove(0);
    world.pass(Duration::from_secs(10));
    let Acquired::Busy(busy) = world.acquire(ask("bob", "r2", &["a"])) else { panic!("it is held") };
    let holder = &busy.holders[0];
    assert_eq!(busy.key, key("a"));
    assert_eq!(holder.session, session("ann"));
    assert_eq!(holder.who.label.as_deref(), Some("ann"));
    assert_eq!(holder.fence, lease.fence);
    assert_eq!(holder.held, Duration::from_secs(10));
    assert_eq!(holder.left, TTL - Duration::from_secs(10));
    assert_eq!((busy.waiting, busy.queue_full), (0, false));
}

#[test]
fn asking_without_waiting_leaves_no_trace() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    let decision = world.decide(Op::acquire(ask("bob", "r2", &["a"])));
    assert!(decision.changes.is_empty());
}

#[test]
fn busy_says_how_many_wait() {
    let mut world = World::with(&["ann", "bob", "cid", "dan"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("cid", "r3", &["a"]));
    let Acquired::Busy(busy) = world.acquire(ask("dan", "r4", &["a"])) else { panic!("it is held") };
    assert_eq!(busy.waiting, 2);
}

#[test]
fn the_fence_rises_over_release_expiry_break_and_deletion() {
    let mut world = World::with(&["ann"]);
    let mut last = None;
    for round in 0..8 {
        let lease = world.take(ask("ann", &format!("r{round}"), &["a"])).remove(0);
        assert!(lease.fence > last, "round {round}");
        last = lease.fence;
        match round % 4 {
            0 => assert_eq!(world.release("ann", "a", last), Kept::Released),
            1 => world.pass(TTL),
            2 => assert_eq!(world.break_lock("a").len(), 1),
            _ => world.end("ann", &["a"]),
        }
        if round % 4 == 3 {
            assert!(world.lock(&key("a")).is_none());
            world.add_session(&session("ann"), new_session(&session("ann"), None));
        }
    }
}

#[test]
fn an_expired_lease_is_free_before_anybody_cleaned_up() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.pass(TTL - Duration::from_millis(1));
    assert!(matches!(world.acquire(ask("bob", "r2", &["a"])), Acquired::Busy(_)));
    world.pass(Duration::from_millis(1));
    assert!(world.holders("a").is_empty());
    world.take(ask("bob", "r3", &["a"]));
    assert_eq!(world.holders("a"), ["bob"]);
}

#[test]
fn a_lease_ends_with_its_session_even_where_nobody_said_so() {
    let mut world = World::with(&["bob", "cid"]);
    world.mortal("ann", Duration::from_secs(15));
    world.take(ask("ann", "r1", &["a"]));
    world.pass(Duration::from_secs(15));
    world.take(ask("bob", "r2", &["a"]));
    world.crash("bob");
    world.take(ask("cid", "r3", &["a"]));
    assert_eq!(world.holders("a"), ["cid"]);
}

#[test]
fn asking_again_gives_the_same_lease_refreshed_and_marked() {
    let mut world = World::with(&["ann"]);
    let first = world.take(ask("ann", "r1", &["a"])).remove(0);
    world.pass(Duration::from_secs(20));
    let again = world.take(ask("ann", "r2", &["a"]).lasting(TTL * 2)).remove(0);
    assert_eq!((again.fence, again.since), (first.fence, first.since));
    assert_eq!(again.expires, world.now + TTL * 2);
    assert!(again.already_held);
}

#[test]
fn one_release_ends_a_lease_that_was_asked_for_twice() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r1", &["a"]));
    let again = world.take(ask("ann", "r2", &["a"])).remove(0);
    assert_eq!(world.release("ann", "a", again.fence), Kept::Released);
    assert!(world.holders("a").is_empty());
}

#[test]
fn a_request_repeated_with_its_id_has_the_one_outcome() {
    let mut world = World::with(&["ann"]);
    let first = world.take(ask("ann", "r1", &["a", "b"]));
    let again = world.take(ask("ann", "r1", &["a", "b"]));
    assert_eq!(first, again);
}

#[test]
fn a_lease_that_ran_out_is_a_new_one_when_asked_for_again() {
    let mut world = World::with(&["ann"]);
    let first = world.take(ask("ann", "r1", &["a"])).remove(0);
    world.pass(TTL);
    let second = world.take(ask("ann", "r2", &["a"])).remove(0);
    assert!(second.fence > first.fence);
    assert!(!second.already_held);
    assert_eq!(second.since, world.now);
}

#[test]
fn the_first_request_of_a_session_stores_it_too() {
    let mut world = World::new();
    let new_session = Some(Arc::new(new_session(&session("ann"), None)));
    world.take(bell_core::acquire::Acquire { new_session, ..ask("ann", "r1", &["a"]) });
    assert!(world.session(&session("ann")).is_some());
    assert_eq!(world.holders("a"), ["ann"]);
}

#[test]
fn an_ended_session_gets_nothing() {
    let mut world = World::new();
    assert_eq!(world.acquire(ask("ann", "r1", &["a"])), Acquired::SessionEnded);
    world.mortal("bob", Duration::from_secs(1));
    world.pass(Duration::from_secs(1));
    let as_if_new = Some(Arc::new(new_session(&session("bob"), None)));
    let reborn = bell_core::acquire::Acquire { new_session: as_if_new, ..ask("bob", "r2", &["a"]) };
    assert_eq!(world.acquire(reborn), Acquired::SessionEnded);
}

#[test]
fn of_two_who_saw_the_key_free_only_one_gets_it() {
    let mut world = World::with(&["ann", "bob"]);
    let ann = world.decide(Op::acquire(ask("ann", "r1", &["a"])));
    let bob = world.decide(Op::acquire(ask("bob", "r2", &["a"])));
    assert!(world.finish(&bob).is_ok());
    assert_eq!(world.finish(&ann), Err(Conflict));
    assert!(matches!(world.acquire(ask("ann", "r1", &["a"])), Acquired::Busy(_)));
}

#[test]
fn a_free_key_is_decided_without_looking_at_anybody_else() {
    let world = World::with(&["ann", "bob"]);
    let decision = world.decide(Op::acquire(ask("ann", "r1", &["a"])));
    assert_eq!(decision.view.sessions.len(), 1);
    assert_eq!(decision.view.locks.len(), 1);
}
