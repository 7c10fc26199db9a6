//! L16: with a session ends all that it held and wanted.

use std::time::Duration;

use bell_core::end::Heard;
use bell_core::keep::Waiting;

use crate::support::names::{TTL, ask, key, session};
use crate::support::talk::Vary;
use crate::support::world::World;

#[test]
fn the_end_of_a_session_frees_everything_it_held() {
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r1", &["a", "b", "c"]));
    world.end("ann", &["a", "b", "c"]);
    assert!(world.locks.is_empty() && world.sessions.is_empty());
}

#[test]
fn the_end_of_a_session_serves_the_queues_of_what_it_held() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a", "b"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("cid", "r3", &["b"]));
    world.end("ann", &["a", "b"]);
    assert_eq!((world.holders("a"), world.holders("b")), (vec!["bob".into()], vec!["cid".into()]));
}

#[test]
fn the_end_of_a_session_takes_it_out_of_every_queue_and_serves_those_behind() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a", "b"]));
    world.queue(ask("cid", "r3", &["b"]));
    world.end("bob", &[]);
    assert_eq!(world.holders("b"), ["cid"]);
    assert!(world.waiters("a").is_empty());
    assert!(world.lock(&key("a")).is_some_and(|lock| lock.queue.is_empty()));
}

#[test]
fn the_end_of_a_session_may_be_repeated() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.end("ann", &["a"]);
    world.take(ask("bob", "r2", &["a"]));
    world.end("ann", &["a"]);
    assert_eq!(world.holders("a"), ["bob"]);
}

#[test]
fn a_lease_that_the_end_did_not_list_is_over_all_the_same() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.end("ann", &[]);
    assert!(world.holders("a").is_empty());
    world.take(ask("bob", "r2", &["a"]));
}

#[test]
fn a_heartbeat_keeps_a_session_and_its_leases() {
    let mut world = World::new();
    let beat = Duration::from_secs(15);
    world.mortal("ann", beat);
    world.take(ask("ann", "r1", &["a"]));
    for _ in 0..3 {
        world.pass(beat - Duration::from_millis(1));
        assert_eq!(world.heartbeat("ann", Some(beat)), Heard::Alive(Vec::new()));
        assert_eq!(world.holders("a"), ["ann"]);
    }
}

#[test]
fn a_session_that_ran_out_or_died_or_never_was_stays_ended() {
    let mut world = World::with(&["cid"]);
    world.mortal("ann", Duration::from_secs(15));
    world.pass(Duration::from_secs(15));
    world.crash("cid");
    for name in ["ann", "bob", "cid"] {
        assert_eq!(world.heartbeat(name, Some(TTL)), Heard::Ended);
    }
}

#[test]
fn a_session_without_heartbeats_is_left_to_its_leases() {
    let mut world = World::new();
    world.mortal("ann", Duration::from_secs(15));
    world.take(ask("ann", "r1", &["a"]));
    assert_eq!(world.heartbeat("ann", None), Heard::Alive(Vec::new()));
    world.pass(TTL - Duration::from_secs(1));
    assert_eq!(world.holders("a"), ["ann"]);
    world.pass(Duration::from_secs(1));
    assert!(world.holders("a").is_empty());
}

#[test]
fn a_waiter_is_woken_in_time_for_the_end_of_the_holders_session() {
    let mut world = World::with(&["bob"]);
    world.mortal("ann", Duration::from_secs(15));
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    let Waiting::Queued(queued) = world.look_after("bob", "r2", &["a"]) else { panic!("it is held") };
    assert_eq!(queued.recheck, world.now + Duration::from_secs(15));
    assert!(world.session(&session("ann")).is_some());
}

#[test]
fn a_waiter_is_woken_in_time_for_the_end_of_the_session_ahead() {
    let mut world = World::with(&["ann", "cid"]);
    world.mortal("bob", Duration::from_secs(15));
    world.take(ask("ann", "r1", &["b"]));
    world.queue(ask("bob", "r2", &["a", "b"]));
    world.queue(ask("cid", "r3", &["a"]));
    let Waiting::Queued(queued) = world.look_after("cid", "r3", &["a"]) else { panic!("bob is first") };
    assert_eq!(queued.ahead, 1);
    assert_eq!(queued.recheck, world.now + Duration::from_secs(15));
    world.pass(Duration::from_secs(15));
    assert!(matches!(world.look_after("cid", "r3", &["a"]), Waiting::Granted(_)));
}

#[test]
fn a_waiter_whose_session_ended_is_told_wherever_it_stands() {
    let mut world = World::with(&["ann", "bob"]);
    world.mortal("cid", Duration::from_secs(15));
    world.take(ask("ann", "r1", &["a"]).lasting(TTL * 2));
    world.queue(ask("bob", "r2", &["a"]));
    world.queue(ask("cid", "r3", &["a"]));
    world.pass(Duration::from_secs(15));
    assert_eq!(world.look_after("cid", "r3", &["a"]), Waiting::Gone);
}
