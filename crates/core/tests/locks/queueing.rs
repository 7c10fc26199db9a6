//! L6: first come, first served; the dead neither get nor block.

use std::time::Duration;

use bell_core::acquire::{Acquired, GRACE};
use bell_core::keep::{Left, Waiting};

use crate::support::names::{TTL, ask, key};
use crate::support::op::Op;
use crate::support::talk::{Vary, queued};
use crate::support::world::{Conflict, World};

/// Ann holds `a`; the others wait for it in this order.
fn line(names: &[&str]) -> World {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r-ann", &["a"]));
    for name in names {
        world.mortal(name, TTL * 1_000);
        world.queue(ask(name, &format!("r-{name}"), &["a"]));
    }
    world
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let names = ["bob", "cid", "dan", "eve"];
    let mut world = line(&names);
    assert_eq!(world.waiters("a"), names);
    let mut holder = "ann";
    for name in names {
        world.release(holder, "a", None);
        assert_eq!(world.holders("a"), [name]);
        holder = name;
    }
}

#[test]
fn nobody_overtakes_a_waiter_by_asking_without_waiting() {
    let mut world = line(&["bob"]);
    world.mortal("cid", TTL * 1_000);
    world.pass(TTL);
    assert!(matches!(world.acquire(ask("cid", "r1", &["a"])), Acquired::Busy(_)));
    assert_eq!(world.holders("a"), ["bob"]);
}

#[test]
fn a_waiter_is_granted_when_the_lease_ahead_runs_out() {
    let mut world = line(&["bob"]);
    let Waiting::Queued(queued) = world.look_after("bob", "r-bob", &["a"]) else { panic!("it is held") };
    assert_eq!(queued.recheck, world.now + TTL);
    world.pass(TTL);
    let Waiting::Granted(leases) = world.look_after("bob", "r-bob", &["a"]) else { panic!("it is free") };
    assert_eq!(leases[0].since, world.now);
    assert!(!leases[0].already_held);
}

#[test]
fn a_waiter_that_gives_up_never_blocks_those_behind() {
    let mut world = line(&["bob", "cid"]);
    assert_eq!(world.leave("bob", "r-bob", &["a"]), Left::Gone);
    assert_eq!(world.leave("bob", "r-bob", &["a"]), Left::Gone);
    world.release("ann", "a", None);
    assert_eq!(world.holders("a"), ["cid"]);
}

#[test]
fn a_dead_waiter_is_never_granted_and_never_blocks() {
    for death in ["gone", "ran out"] {
        let mut world = line(&["bob", "cid"]);
        match death {
            "gone" => world.crash("bob"),
            _ => assert!(matches!(world.heartbeat("bob", Some(Duration::ZERO)), _)),
        }
        world.release("ann", "a", None);
        assert_eq!(world.holders("a"), ["cid"], "{death}");
        assert!(world.waiters("a").is_empty(), "{death}");
    }
}

#[test]
fn a_waiter_that_timed_out_is_never_granted_and_never_blocks() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    let wait = Duration::from_secs(3);
    world.queue(ask("bob", "r2", &["a"]).waiting_for(wait));
    world.queue(ask("cid", "r3", &["a"]));
    world.pass(wait + GRACE);
    assert_eq!(world.waiters("a"), ["cid"]);
    world.release("ann", "a", None);
    assert_eq!(world.holders("a"), ["cid"]);
    assert_eq!(world.look_after("bob", "r2", &["a"]), Waiting::Gone);
}

#[test]
fn a_waiter_that_calls_again_within_its_grace_keeps_its_place() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    let wait = Duration::from_secs(3);
    world.queue(ask("bob", "r2", &["a"]).waiting_for(wait));
    world.queue(ask("cid", "r3", &["a"]));
    for _ in 0..5 {
        world.pass(wait + GRACE - Duration::from_millis(1));
        world.queue(ask("bob", "r2", &["a"]).waiting_for(wait));
        assert_eq!(world.waiters("a"), ["bob", "cid"]);
    }
}

#[test]
fn a_waiter_that_calls_again_after_its_grace_comes_last() {
    let mut world = World::with(&["ann", "bob", "cid", "dan"]);
    world.take(ask("ann", "r1", &["a"]).lasting(TTL * 10));
    world.queue(ask("bob", "r2", &["a"]));
    let wait = Duration::from_secs(3);
    world.queue(ask("cid", "r3", &["a"]).waiting_for(wait));
    world.queue(ask("dan", "r4", &["a"]));
    world.pass(wait + GRACE);
    world.queue(ask("cid", "r3", &["a"]).waiting_for(wait));
    assert_eq!(world.waiters("a"), ["bob", "dan", "cid"]);
}

#[test]
fn a_waiter_that_calls_again_is_granted_what_became_free() {
    let mut world = line(&["bob"]);
    world.pass(TTL);
    world.take(ask("bob", "r-bob", &["a"]).waiting());
    assert!(world.lock(&key("a")).is_some_and(|lock| lock.queue.is_empty()));
}

#[test]
fn a_grant_to_a_waiter_that_left_meanwhile_does_not_count() {
    let mut world = line(&["bob", "cid"]);
    world.pass(TTL);
    let grant = world.decide(Op::LookAfter(queued("cid", "r-cid", &["a"])));
    world.leave("bob", "r-bob", &["a"]);
    assert_eq!(world.finish(&grant), Err(Conflict));
    assert_eq!(world.holders("a"), ["cid"]);
}

#[test]
fn a_grant_to_a_session_that_ended_meanwhile_does_not_count() {
    let mut world = line(&["bob"]);
    world.pass(TTL);
    let grant = world.decide(Op::Serve(vec![key("a")]));
    world.end("bob", &[]);
    assert_eq!(world.finish(&grant), Err(Conflict));
    assert!(world.holders("a").is_empty());
}

#[test]
fn those_who_queue_at_the_same_moment_conflict_and_neither_is_lost() {
    let mut world = line(&[]);
    for name in ["bob", "cid"] {
        world.mortal(name, TTL);
    }
    let bob = world.decide(Op::acquire(ask("bob", "r1", &["a"]).waiting()));
    let cid = world.decide(Op::acquire(ask("cid", "r2", &["a"]).waiting()));
    assert!(world.finish(&cid).is_ok());
    assert_eq!(world.finish(&bob), Err(Conflict));
    world.queue(ask("bob", "r1", &["a"]));
    assert_eq!(world.waiters("a"), ["cid", "bob"]);
}

#[test]
fn two_sessions_may_call_their_requests_the_same() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "1", &["a"]));
    for name in ["bob", "cid", "dan"] {
        world.mortal(name, TTL * 1_000);
        world.queue(ask(name, "1", &["a"]));
    }
    assert_eq!(world.waiters("a"), ["bob", "cid", "dan"]);
    assert_eq!(world.leave("cid", "1", &["a"]), Left::Gone);
    assert_eq!(world.waiters("a"), ["bob", "dan"]);
    world.release("ann", "a", None);
    assert!(matches!(world.look_after("bob", "1", &["a"]), Waiting::Granted(_)));
    assert!(matches!(world.look_after("dan", "1", &["a"]), Waiting::Queued(_)));
    world.release("bob", "a", None);
    assert_eq!(world.holders("a"), ["dan"]);
}
