//! L17: an operator takes a key away.

use bell_core::end::Heard;
use bell_core::keep::Kept;

use crate::support::names::{TTL, ask, key};
use crate::support::talk::Vary;
use crate::support::world::World;

#[test]
fn a_broken_lock_tells_its_holder_once() {
    let mut world = World::with(&["ann"]);
    let fence = world.take(ask("ann", "r1", &["a"]))[0].fence;
    let holders = world.break_lock("a");
    assert_eq!(holders.iter().map(|holder| holder.fence).collect::<Vec<_>>(), [fence]);
    let Heard::Alive(revoked) = world.heartbeat("ann", None) else { panic!("ann lives") };
    assert_eq!(revoked.len(), 1);
    assert_eq!((&revoked[0].key, Some(revoked[0].fence)), (&key("a"), fence));
    assert_eq!(revoked[0].reason, "a test");
    assert_eq!(world.heartbeat("ann", None), Heard::Alive(Vec::new()));
}

#[test]
fn a_broken_lock_cannot_be_renewed_and_its_next_fence_is_higher() {
    let mut world = World::with(&["ann", "bob"]);
    let old = world.take(ask("ann", "r1", &["a"]))[0].fence;
    world.break_lock("a");
    assert_eq!(world.renew("ann", "a", old), Kept::NotHeld);
    let new = world.take(ask("bob", "r2", &["a"]))[0].fence;
    assert!(new > old);
}

#[test]
fn a_broken_lock_goes_to_the_next_in_line() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("cid", "r3", &["a"]));
    world.break_lock("a");
    assert_eq!(world.holders("a"), ["bob"]);
    assert_eq!(world.waiters("a"), ["cid"]);
}

#[test]
fn breaking_a_shared_lock_tells_every_holder() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.take(ask("bob", "r2", &["a"]).shared());
    assert_eq!(world.break_lock("a").len(), 2);
    for name in ["ann", "bob"] {
        assert!(matches!(world.heartbeat(name, None), Heard::Alive(revoked) if revoked.len() == 1));
    }
}

#[test]
fn breaking_a_free_key_does_nothing() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r1", &["b"]));
    let revision = world.revision;
    assert!(world.break_lock("a").is_empty());
    assert_eq!(world.revision, revision);
}

#[test]
fn breaking_what_has_run_out_blames_nobody() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r1", &["a"]));
    world.pass(TTL);
    assert!(world.break_lock("a").is_empty());
    assert_eq!(world.heartbeat("ann", None), Heard::Alive(Vec::new()));
    assert!(world.locks.is_empty());
}
