//! L7: several keys, all or nothing, in one place in the order.

use bell_core::acquire::{Acquired, canonical_order};
use bell_core::keep::{Left, Waiting};

use crate::support::names::{TTL, ask, key, keys};
use crate::support::op::Op;
use crate::support::talk::Vary;
use crate::support::world::{Conflict, World};

#[test]
fn keys_are_taken_in_one_order_and_each_once() {
    let given = vec![key("c"), key("a"), key("b"), key("a")];
    assert_eq!(canonical_order(given), keys(&["a", "b", "c"]));
}

#[test]
fn several_keys_are_granted_together_under_one_fence() {
    let mut world = World::with(&["ann"]);
    let leases = world.take(ask("ann", "r1", &["b", "a", "c"]));
    let names: Vec<_> = leases.iter().map(|lease| lease.key.clone()).collect();
    assert_eq!(names, keys(&["a", "b", "c"]));
    assert!(leases.iter().all(|lease| lease.fence == leases[0].fence));
}

#[test]
fn one_key_that_is_held_refuses_all() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["b"]));
    let Acquired::Busy(busy) = world.acquire(ask("bob", "r2", &["a", "b", "c"])) else { panic!("held") };
    assert_eq!(busy.key, key("b"));
    assert!(world.lock(&key("a")).is_none() && world.lock(&key("c")).is_none());
}

#[test]
fn nobody_sees_a_part_of_a_grant() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["b"]));
    world.queue(ask("bob", "r2", &["a", "b", "c"]));
    for name in ["a", "b", "c"] {
        assert_eq!(world.waiters(name), ["bob"]);
    }
    assert!(world.holders("a").is_empty() && world.holders("c").is_empty());
    world.release("ann", "b", None);
    for name in ["a", "b", "c"] {
        assert_eq!(world.holders(name), ["bob"]);
        assert!(world.waiters(name).is_empty());
    }
}

#[test]
fn one_who_waits_for_several_keys_is_not_overtaken_on_any_of_them() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["b"]));
    world.queue(ask("bob", "r2", &["a", "b"]));
    let Acquired::Busy(busy) = world.acquire(ask("cid", "r3", &["a"])) else { panic!("bob is first") };
    assert!(busy.holders.is_empty());
    assert_eq!(busy.waiting, 1);
    world.queue(ask("cid", "r4", &["a"]));
    world.release("ann", "b", None);
    assert_eq!(world.holders("a"), ["bob"]);
    world.release("bob", "a", None);
    assert_eq!(world.holders("a"), ["cid"]);
}

#[test]
fn giving_up_several_keys_serves_all_their_queues() {
    let mut world = World::with(&["ann", "bob", "cid", "dan"]);
    world.take(ask("ann", "r1", &["b"]));
    world.queue(ask("bob", "r2", &["a", "b", "c"]));
    world.queue(ask("cid", "r3", &["a"]));
    world.queue(ask("dan", "r4", &["c"]));
    assert_eq!(world.leave("bob", "r2", &["a", "b", "c"]), Left::Gone);
    assert_eq!((world.holders("a"), world.holders("c")), (vec!["cid".into()], vec!["dan".into()]));
}

#[test]
fn a_dead_one_who_wanted_several_keys_blocks_none_of_them() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["b"]));
    world.queue(ask("bob", "r2", &["a", "b"]));
    world.crash("bob");
    world.take(ask("cid", "r3", &["a"]));
    assert!(world.lock(&key("b")).is_some_and(|lock| lock.queue.is_empty()));
}

#[test]
fn a_lease_that_ran_out_on_one_key_does_not_hold_up_the_others() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).lasting(TTL * 2));
    world.take(ask("bob", "r2", &["b"]));
    world.queue(ask("cid", "r3", &["a", "b"]));
    world.pass(TTL);
    world.release("ann", "a", None);
    assert_eq!((world.holders("a"), world.holders("b")), (vec!["cid".into()], vec!["cid".into()]));
}

#[test]
fn what_was_held_before_keeps_its_fence_when_more_is_asked_for() {
    let mut world = World::with(&["ann"]);
    let first = world.take(ask("ann", "r1", &["a"])).remove(0);
    world.pass(TTL / 2);
    let both = world.take(ask("ann", "r2", &["a", "b"]));
    assert_eq!((both[0].fence, both[0].since, both[0].already_held), (first.fence, first.since, true));
    assert!(both[1].fence > first.fence);
    assert!(!both[1].already_held);
}

#[test]
fn what_was_held_before_keeps_its_fence_when_more_is_waited_for() {
    let mut world = World::with(&["ann", "bob"]);
    let first = world.take(ask("ann", "r1", &["a"]).lasting(TTL * 2)).remove(0);
    world.take(ask("bob", "r2", &["b"]));
    world.queue(ask("ann", "r3", &["a", "b"]));
    world.pass(TTL);
    let Waiting::Granted(both) = world.look_after("ann", "r3", &["a", "b"]) else { panic!("b is free") };
    assert_eq!((both[0].fence, both[0].since, both[0].already_held), (first.fence, first.since, true));
    assert_eq!(both[0].expires, world.now + TTL * 2, "the longer ttl stays");
    assert!(!both[1].already_held);
    assert!(matches!(world.leave("ann", "r3", &["a", "b"]), Left::Granted(leases) if leases.len() == 2));
}

#[test]
fn one_who_holds_a_key_does_not_queue_behind_those_who_wait_for_it() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.take(ask("cid", "r3", &["b"]));
    world.queue(ask("ann", "r4", &["a", "b"]));
    world.release("cid", "b", None);
    assert_eq!((world.holders("a"), world.holders("b")), (vec!["ann".into()], vec!["ann".into()]));
    world.release("ann", "a", None);
    assert_eq!(world.holders("a"), ["bob"]);
}

#[test]
fn a_grant_of_several_keys_conflicts_if_any_of_them_moved() {
    let mut world = World::with(&["ann", "bob"]);
    let both = world.decide(Op::acquire(ask("ann", "r1", &["a", "b"])));
    world.take(ask("bob", "r2", &["b"]));
    assert_eq!(world.finish(&both), Err(Conflict));
    assert!(world.holders("a").is_empty());
}
