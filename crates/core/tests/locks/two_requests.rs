//! L4 where one session asks for the same key several times at once.

use bell_core::acquire::{Acquire, Acquired, GRACE};
use bell_core::keep::{Kept, Waiting};
use bell_core::lock::Ttl;

use crate::support::names::{TTL, ask};
use crate::support::talk::Vary;
use crate::support::world::World;

#[test]
fn two_requests_of_one_session_get_one_lease() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("bob", "r3", &["a"]));
    world.release("ann", "a", None);
    let Waiting::Granted(first) = world.look_after("bob", "r2", &["a"]) else { panic!("granted") };
    let Waiting::Granted(second) = world.look_after("bob", "r3", &["a"]) else { panic!("granted") };
    assert_eq!(first[0].fence, second[0].fence);
    assert!(!first[0].already_held && second[0].already_held);
    assert!(world.waiters("a").is_empty());
}

#[test]
fn a_second_request_does_not_wait_for_those_who_wait_for_its_session() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("cid", "r3", &["a"]));
    world.queue(ask("bob", "r4", &["a"]));
    world.release("ann", "a", None);
    assert!(matches!(world.look_after("bob", "r4", &["a"]), Waiting::Granted(_)));
    assert_eq!(world.waiters("a"), ["cid"]);
    world.release("bob", "a", None);
    assert_eq!(world.holders("a"), ["cid"]);
}

#[test]
fn a_lease_keeps_its_fence_when_another_request_of_its_session_is_served() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a", "b"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("bob", "r3", &["a", "b"]));
    world.release("ann", "a", None);
    let fence = world.fence("bob", "a");
    world.release("ann", "b", None);
    assert_eq!(world.holders("b"), ["bob"]);
    assert_eq!(world.fence("bob", "a"), fence);
}

#[test]
fn taking_at_once_answers_what_the_session_waits_for() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.pass(TTL);
    let lease = world.take(ask("bob", "r3", &["a"])).remove(0);
    assert!(lease.already_held, "the queue was served first");
    assert!(world.waiters("a").is_empty());
}

#[test]
fn to_share_first_and_to_exclude_later_behind_a_rival_is_a_cycle() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]).shared());
    world.queue(ask("cid", "r3", &["a"]));
    let answer = world.acquire(ask("bob", "r4", &["a"]).waiting());
    assert!(matches!(answer, Acquired::Deadlock(_)), "{answer:?}");
}

#[test]
fn taking_a_key_again_for_a_shorter_time_shortens_nothing() {
    let mut world = World::with(&["ann"]);
    let first = world.take(ask("ann", "r1", &["a"])).remove(0);
    let short = Acquire { ttl: Ttl::MIN, ..ask("ann", "r2", &["a"]) };
    let second = world.take(short).remove(0);
    assert_eq!((second.ttl, second.expires), (first.ttl, first.expires));
    let Kept::Renewed(renewed) = world.renew("ann", "a", None) else { panic!("it is held") };
    assert_eq!(renewed.expires, world.now + TTL);
}

#[test]
fn taking_a_key_again_for_a_longer_time_makes_it_last_longer() {
    let mut world = World::with(&["ann"]);
    world.take(Acquire { ttl: Ttl::MIN, ..ask("ann", "r1", &["a"]) });
    let second = world.take(ask("ann", "r2", &["a"])).remove(0);
    assert_eq!(second.expires, world.now + TTL);
}

#[test]
fn of_two_requests_that_wait_the_longer_ttl_counts_and_both_are_answered_with_it() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(Acquire { ttl: Ttl::MIN, ..ask("bob", "r2", &["a"]) });
    world.queue(ask("bob", "r3", &["a"]));
    world.release("ann", "a", None);
    for request in ["r2", "r3"] {
        let Waiting::Granted(leases) = world.look_after("bob", request, &["a"]) else { panic!("granted") };
        assert_eq!((leases[0].ttl.length(), leases[0].expires), (TTL, world.now + TTL));
    }
}

#[test]
fn a_request_that_waits_and_is_repeated_with_a_longer_ttl_is_granted_that() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(Acquire { ttl: Ttl::MIN, ..ask("bob", "r2", &["a"]) });
    world.queue(ask("bob", "r2", &["a"]));
    world.release("ann", "a", None);
    let Waiting::Granted(leases) = world.look_after("bob", "r2", &["a"]) else { panic!("granted") };
    assert_eq!((leases[0].ttl.length(), leases[0].expires), (TTL, world.now + TTL));
}

#[test]
fn a_request_that_has_lapsed_lengthens_nothing() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(Acquire { ttl: Ttl::MAX, ..ask("ann", "r1", &["a"]) });
    let lapsing = Acquire { wait: TTL, ..ask("bob", "r2", &["a"]) };
    world.queue(lapsing);
    world.pass(TTL + GRACE);
    world.queue(Acquire { ttl: Ttl::MIN, ..ask("bob", "r3", &["a"]) });
    world.release("ann", "a", None);
    let Waiting::Granted(leases) = world.look_after("bob", "r3", &["a"]) else { panic!("granted") };
    assert_eq!(leases[0].ttl, Ttl::MIN);
}
