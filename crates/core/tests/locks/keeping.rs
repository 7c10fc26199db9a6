//! L9, L14, L15: renewing and releasing touch the lease that is meant, and no other.

use std::time::Duration;

use bell_core::keep::{Kept, Left, Waiting};
use bell_core::lock::{Fence, Ttl};

use crate::support::names::{TTL, ask, key, session};
use crate::support::op::{LeaseName, Op};
use crate::support::talk::Vary;
use crate::support::world::World;

fn held_by_others(kept: &Kept) -> Vec<String> {
    match kept {
        Kept::NotHolder(holders) => holders.iter().map(|holder| holder.session.to_string()).collect(),
        other => panic!("should be held by somebody else, but {other:?}"),
    }
}

#[test]
fn renewal_extends_from_now_and_keeps_the_fence() {
    let mut world = World::with(&["ann"]);
    let lease = world.take(ask("ann", "r1", &["a"])).remove(0);
    world.pass(TTL / 2);
    let Kept::Renewed(renewed) = world.renew("ann", "a", lease.fence) else { panic!("it is held") };
    assert_eq!(renewed.expires, world.now + TTL);
    assert_eq!((renewed.fence, renewed.since), (lease.fence, lease.since));
}

#[test]
fn renewal_may_change_the_ttl_for_good() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r1", &["a"]));
    let lease = LeaseName { session: session("ann"), key: key("a"), fence: None };
    world.run(Op::Renew { lease, ttl: Some(Ttl::MIN) });
    assert_eq!(world.inspect("a").holders[0].left, Ttl::MIN.length());
    let Kept::Renewed(renewed) = world.renew("ann", "a", None) else { panic!("it is held") };
    assert_eq!(renewed.ttl, Ttl::MIN);
}

#[test]
fn an_expired_lease_cannot_be_renewed_even_if_nobody_took_the_key() {
    let mut world = World::with(&["ann"]);
    let lease = world.take(ask("ann", "r1", &["a"])).remove(0);
    world.pass(TTL);
    assert_eq!(world.renew("ann", "a", lease.fence), Kept::NotHeld);
    assert!(world.holders("a").is_empty());
}

#[test]
fn only_the_holder_can_renew_or_release() {
    let mut world = World::with(&["ann", "bob"]);
    let lease = world.take(ask("ann", "r1", &["a"])).remove(0);
    for fence in [None, lease.fence, Some(Fence(1))] {
        assert_eq!(held_by_others(&world.renew("bob", "a", fence)), ["ann"]);
        assert_eq!(held_by_others(&world.release("bob", "a", fence)), ["ann"]);
    }
    assert_eq!(world.fence("ann", "a"), lease.fence);
}

#[test]
fn a_free_key_is_not_held() {
    let mut world = World::with(&["ann"]);
    assert_eq!(world.renew("ann", "a", None), Kept::NotHeld);
    assert_eq!(world.release("ann", "a", None), Kept::NotHeld);
}

#[test]
fn a_release_may_be_repeated() {
    let mut world = World::with(&["ann"]);
    let fence = world.take(ask("ann", "r1", &["a"]))[0].fence;
    assert_eq!(world.release("ann", "a", fence), Kept::Released);
    assert_eq!(world.release("ann", "a", fence), Kept::Released);
    assert!(world.lock(&key("a")).is_none());
}

#[test]
fn a_late_release_or_renewal_never_touches_a_successor() {
    let mut world = World::with(&["ann", "bob"]);
    let old = world.take(ask("ann", "r1", &["a"]))[0].fence;
    world.pass(TTL);
    let new = world.take(ask("bob", "r2", &["a"]))[0].fence;
    for fence in [None, old, new] {
        assert_eq!(held_by_others(&world.release("ann", "a", fence)), ["bob"]);
        assert_eq!(held_by_others(&world.renew("ann", "a", fence)), ["bob"]);
    }
    assert_eq!(world.fence("bob", "a"), new);
}

#[test]
fn a_late_release_or_renewal_never_touches_a_later_lease_of_the_same_session() {
    let mut world = World::with(&["ann"]);
    let old = world.take(ask("ann", "r1", &["a"]))[0].fence;
    world.pass(TTL);
    let new = world.take(ask("ann", "r2", &["a"])).remove(0);
    world.pass(TTL / 2);
    assert_eq!(world.release("ann", "a", old), Kept::Released);
    assert!(matches!(world.renew("ann", "a", old), Kept::NotHolder(_)));
    let lease = world.inspect("a").holders.remove(0);
    assert_eq!((lease.fence, lease.left), (new.fence, TTL / 2));
}

#[test]
fn a_release_decided_before_the_key_changed_hands_does_not_count() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    let late = LeaseName { session: session("ann"), key: key("a"), fence: None };
    let release = world.decide(Op::Release(late.clone()));
    world.break_lock("a");
    world.take(ask("bob", "r2", &["a"]));
    assert!(world.finish(&release).is_err());
    assert!(matches!(world.release("ann", "a", None), Kept::NotHolder(_)));
    assert_eq!(world.holders("a"), ["bob"]);
}

#[test]
fn a_release_grants_to_the_next_in_the_same_commit() {
    let mut world = World::with(&["ann", "bob"]);
    let first = world.take(ask("ann", "r1", &["a"]))[0].fence;
    world.queue(ask("bob", "r2", &["a"]));
    world.release("ann", "a", first);
    assert_eq!(world.holders("a"), ["bob"]);
    assert!(world.fence("bob", "a") > first);
    let Waiting::Granted(leases) = world.look_after("bob", "r2", &["a"]) else { panic!("it was granted") };
    assert!(!leases[0].already_held);
}

#[test]
fn giving_up_too_late_hands_over_the_grant() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.release("ann", "a", None);
    let Left::Granted(leases) = world.leave("bob", "r2", &["a"]) else { panic!("it was granted") };
    assert_eq!(leases[0].fence, world.fence("bob", "a"));
}

#[test]
fn giving_up_after_the_grant_has_run_out_is_gone() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]).lasting(Duration::from_secs(1)));
    world.release("ann", "a", None);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.leave("bob", "r2", &["a"]), Left::Gone);
}

#[test]
fn a_ttl_is_between_a_second_and_a_week() {
    assert!(Ttl::new(Duration::from_millis(999)).is_err());
    assert_eq!(Ttl::new(Duration::from_secs(1)), Ok(Ttl::MIN));
    let week = Duration::from_secs(7 * 24 * 3_600);
    assert_eq!(Ttl::new(week), Ok(Ttl::MAX));
    assert!(Ttl::new(week + Duration::from_millis(1)).is_err());
    assert_eq!(Ttl::DEFAULT.length(), Duration::from_secs(1_800));
}

#[test]
fn reading_a_key_writes_nothing_and_hides_what_has_run_out() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("cid", "r3", &["a"]));
    world.crash("bob");
    let revision = world.revision;
    assert_eq!(world.holders("a"), ["ann"]);
    assert_eq!(world.waiters("a"), ["cid"]);
    assert_eq!(world.revision, revision);
}
