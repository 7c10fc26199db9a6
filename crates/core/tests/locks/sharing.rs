//! Shared mode: L2, L4 and L6 with leases that coexist.

use bell_core::acquire::Acquired;
use bell_core::keep::Kept;
use bell_core::lock::Mode;

use crate::support::names::{TTL, ask, key};
use crate::support::talk::Vary;
use crate::support::world::World;

#[test]
fn shared_leases_coexist_with_shared_ones_only() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.take(ask("bob", "r2", &["a"]).shared());
    assert_eq!(world.holders("a"), ["ann", "bob"]);
    let Acquired::Busy(busy) = world.acquire(ask("cid", "r3", &["a"])) else { panic!("it is shared") };
    assert_eq!(busy.holders.len(), 2);
}

#[test]
fn an_exclusive_lease_keeps_sharers_out() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    assert!(matches!(world.acquire(ask("bob", "r2", &["a"]).shared()), Acquired::Busy(_)));
}

#[test]
fn a_sharer_does_not_overtake_an_exclusive_waiter() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.queue(ask("bob", "r2", &["a"]));
    assert!(matches!(world.acquire(ask("cid", "r3", &["a"]).shared()), Acquired::Busy(_)));
    world.queue(ask("cid", "r4", &["a"]).shared());
    world.release("ann", "a", None);
    assert_eq!(world.holders("a"), ["bob"]);
    world.release("bob", "a", None);
    assert_eq!(world.holders("a"), ["cid"]);
}

#[test]
fn sharers_in_a_row_are_served_together_up_to_the_first_exclusive_one() {
    let mut world = World::with(&["ann", "bob", "cid", "dan", "eve"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]).shared());
    world.queue(ask("cid", "r3", &["a"]).shared());
    world.queue(ask("dan", "r4", &["a"]));
    world.queue(ask("eve", "r5", &["a"]).shared());
    world.release("ann", "a", None);
    assert_eq!(world.holders("a"), ["bob", "cid"]);
    assert_eq!(world.waiters("a"), ["dan", "eve"]);
    world.release("bob", "a", None);
    assert_eq!(world.holders("a"), ["cid"]);
    world.release("cid", "a", None);
    assert_eq!(world.holders("a"), ["dan"]);
}

#[test]
fn a_dead_exclusive_waiter_does_not_keep_sharers_out() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.queue(ask("bob", "r2", &["a"]));
    world.crash("bob");
    world.take(ask("cid", "r3", &["a"]).shared());
    assert_eq!(world.holders("a"), ["ann", "cid"]);
}

#[test]
fn a_dead_waiter_behind_a_blocked_sharer_does_not_keep_others_out() {
    let mut world = World::with(&["ann", "bob", "cid", "dan"]);
    world.take(ask("ann", "r1", &["b"]));
    world.queue(ask("bob", "r2", &["a", "b"]).shared());
    world.queue(ask("cid", "r3", &["a"]));
    world.crash("cid");
    world.take(ask("dan", "r4", &["a"]).shared());
    assert_eq!(world.holders("a"), ["dan"]);
}

#[test]
fn a_queued_sharer_passes_one_who_waits_for_another_key_too() {
    let mut world = World::with(&["ann", "bob", "cid", "dan"]);
    world.take(ask("ann", "r1", &["a", "b"]));
    world.queue(ask("bob", "r2", &["a", "b"]).shared());
    world.queue(ask("cid", "r3", &["a"]).shared());
    world.release("ann", "a", None);
    assert_eq!(world.holders("a"), ["cid"], "before anybody who comes later");
    world.take(ask("dan", "r4", &["a"]).shared());
    world.release("ann", "b", None);
    assert_eq!(world.holders("a"), ["bob", "cid", "dan"]);
}

#[test]
fn a_shared_key_cannot_be_asked_for_exclusively_by_its_holder() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    let answer = world.acquire(ask("ann", "r2", &["a", "b"]).waiting());
    assert_eq!(answer, Acquired::Upgrade(key("a")));
    assert!(world.lock(&key("b")).is_none());
}

#[test]
fn an_exclusive_holder_who_asks_to_share_stays_exclusive() {
    let mut world = World::with(&["ann", "bob"]);
    let first = world.take(ask("ann", "r1", &["a"])).remove(0);
    let again = world.take(ask("ann", "r2", &["a"]).shared()).remove(0);
    assert_eq!((again.mode, again.fence, again.already_held), (Mode::Exclusive, first.fence, true));
    assert!(matches!(world.acquire(ask("bob", "r3", &["a"]).shared()), Acquired::Busy(_)));
}

#[test]
fn each_sharer_keeps_and_ends_its_own_lease() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.take(ask("bob", "r2", &["a"]).shared());
    world.pass(TTL / 2);
    assert!(matches!(world.renew("ann", "a", None), Kept::Renewed(_)));
    world.pass(TTL / 2);
    assert_eq!(world.holders("a"), ["ann"]);
    assert!(matches!(world.release("bob", "a", None), Kept::Released));
    assert_eq!(world.holders("a"), ["ann"]);
}

#[test]
fn later_sharers_have_higher_fences() {
    let mut world = World::with(&["ann", "bob"]);
    let ann = world.take(ask("ann", "r1", &["a"]).shared())[0].fence;
    let bob = world.take(ask("bob", "r2", &["a"]).shared())[0].fence;
    assert!(bob > ann);
}

#[test]
fn sharers_who_waited_together_have_fences_of_their_own() {
    let mut world = World::with(&["ann", "bob", "cid", "dan"]);
    world.take(ask("ann", "r-ann", &["a"]));
    for name in ["bob", "cid"] {
        world.queue(ask(name, name, &["a"]).shared());
    }
    world.release("ann", "a", None);
    world.take(ask("dan", "r-dan", &["a"]).shared());
    let fences = ["bob", "cid", "dan"].map(|name| world.fence(name, "a"));
    assert!(fences.iter().all(Option::is_some) && fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn a_sharer_who_comes_while_others_are_served_has_a_fence_of_its_own() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r-ann", &["a"]));
    world.queue(ask("bob", "r-bob", &["a"]).shared());
    world.crash("ann");
    world.take(ask("cid", "r-cid", &["a"]).shared());
    assert!(world.fence("cid", "a") > world.fence("bob", "a"));
}
