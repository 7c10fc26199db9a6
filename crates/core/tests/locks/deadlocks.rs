//! L8: a wait that would never end is refused, and no other.

use std::time::Duration;

use bell_core::acquire::{Acquired, GRACE};
use bell_core::deadlock::{Cycle, refused_afterwards};

use crate::support::names::{TTL, ask, keys, request, session};
use crate::support::op::Op;
use crate::support::talk::Vary;
use crate::support::world::{Conflict, World};

fn refused(answer: Acquired) -> Vec<String> {
    match answer {
        Acquired::Deadlock(cycle) => cycle.path(),
        other => panic!("should be a deadlock, but {other:?}"),
    }
}

/// Sessions `s0…` hold `k0…`, and each but the last waits for the next one's key.
fn chain(length: usize) -> World {
    let mut world = World::new();
    for n in 0..length {
        world.mortal(&format!("s{n}"), TTL * 1_000);
        world.take(ask(&format!("s{n}"), &format!("hold{n}"), &[&format!("k{n}")]).lasting(TTL * 100));
    }
    for n in 0..length - 1 {
        world.queue(ask(&format!("s{n}"), &format!("wait{n}"), &[&format!("k{}", n + 1)]));
    }
    world
}

#[test]
fn cycles_of_any_length_are_refused_with_their_path() {
    for length in [2, 3, 7, 50] {
        let mut world = chain(length);
        let last = length - 1;
        let path = refused(world.acquire(ask(&format!("s{last}"), "closing", &["k0"]).waiting()));
        let mut expected = vec![format!("s{last}"), "test:k0".to_owned()];
        for n in 0..last {
            expected.extend([format!("s{n}"), format!("test:k{}", n + 1)]);
        }
        assert_eq!(path, expected);
        let waits = world.sessions.values().map(|stored| stored.1.waits.len()).sum::<usize>();
        assert_eq!(waits, last, "only the one who closed it was refused");
    }
}

#[test]
fn the_refused_one_leaves_no_trace_and_the_rest_goes_on() {
    let mut world = chain(3);
    let revision = world.revision;
    refused(world.acquire(ask("s2", "closing", &["k0"]).waiting()));
    assert_eq!(world.revision, revision);
    world.release("s2", "k2", None);
    assert_eq!(world.holders("k2"), ["s1"]);
}

#[test]
fn asking_without_waiting_is_never_a_deadlock() {
    let mut world = chain(2);
    assert!(matches!(world.acquire(ask("s1", "closing", &["k0"])), Acquired::Busy(_)));
}

#[test]
fn a_cycle_through_an_earlier_waiter_is_found() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("cid", "r2", &["c"]));
    // Bob waits for both; cid would wait behind bob for a, and bob waits for cid.
    world.queue(ask("bob", "r3", &["a", "c"]));
    let path = refused(world.acquire(ask("cid", "r4", &["a"]).waiting()));
    assert_eq!(path, ["cid", "test:a", "bob", "test:c"]);
}

#[test]
fn a_cycle_through_any_key_of_several_is_found() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("bob", "r2", &["b"]));
    world.take(ask("cid", "r3", &["c"]));
    world.queue(ask("ann", "r4", &["b", "c"]));
    assert_eq!(
        refused(world.acquire(ask("cid", "r5", &["a", "d"]).waiting())),
        ["cid", "test:a", "ann", "test:c"]
    );
}

#[test]
fn a_cycle_through_shared_leases_is_found() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.take(ask("bob", "r2", &["a"]).shared());
    world.take(ask("cid", "r3", &["c"]));
    world.queue(ask("bob", "r4", &["c"]));
    assert_eq!(
        refused(world.acquire(ask("cid", "r5", &["a"]).waiting())),
        ["cid", "test:a", "bob", "test:c"]
    );
}

#[test]
fn a_cycle_through_an_exclusive_waiter_between_sharers_is_found() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.take(ask("cid", "r2", &["c"]));
    world.queue(ask("bob", "r3", &["a"]));
    world.queue(ask("ann", "r4", &["c"]));
    // Ann does not block cid on a, but bob does, and ann blocks bob.
    assert_eq!(
        refused(world.acquire(ask("cid", "r5", &["a"]).shared().waiting())),
        ["cid", "test:a", "bob", "test:a", "ann", "test:c"]
    );
}

#[test]
fn the_same_cycle_is_found_from_its_other_end() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]).shared());
    world.take(ask("cid", "r2", &["c"]));
    world.queue(ask("bob", "r3", &["a"]));
    world.queue(ask("cid", "r4", &["a"]).shared());
    assert_eq!(
        refused(world.acquire(ask("ann", "r5", &["c"]).waiting())),
        ["ann", "test:c", "cid", "test:a", "bob", "test:a"]
    );
}

#[test]
fn sharers_do_not_wait_for_each_other() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("cid", "r0", &["a"]));
    world.take(ask("ann", "r1", &["b"]).shared());
    world.queue(ask("ann", "r2", &["a"]).shared());
    world.queue(ask("bob", "r3", &["a"]).shared());
    world.take(ask("bob", "r4", &["b"]).shared());
}

#[test]
fn a_session_may_wait_for_what_it_holds_and_more() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.queue(ask("bob", "r2", &["a"]));
    world.take(ask("cid", "r3", &["b"]));
    world.queue(ask("ann", "r4", &["a", "b"]));
}

#[test]
fn what_a_waiter_releases_meanwhile_does_not_close_a_cycle() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("cid", "r2", &["b"]));
    world.queue(ask("bob", "r3", &["a"]));
    world.queue(ask("ann", "r4", &["a", "b"]));
    world.queue(ask("bob", "r5", &["b"]));
    // Ann stands before bob on both keys; every rule is checked on each commit.
    world.release("ann", "a", None);
    world.release("cid", "b", None);
    assert_eq!((world.holders("a"), world.holders("b")), (vec!["ann".into()], vec!["ann".into()]));
}

#[test]
fn what_a_session_gives_up_does_not_put_its_other_request_behind_those_who_wait_for_it() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("cid", "r1", &["a"]));
    world.take(ask("bob", "r2", &["b"]));
    world.queue(ask("bob", "r3", &["a"]));
    world.queue(ask("ann", "r4", &["a", "b"]));
    world.queue(ask("bob", "r5", &["a"]));
    world.leave("bob", "r3", &["a"]);
    assert_eq!(world.waiters("a"), ["bob", "ann"]);
}

#[test]
fn there_is_no_deadlock_with_one_who_gave_up() {
    let mut world = chain(2);
    world.leave("s0", "wait0", &["k1"]);
    world.queue(ask("s1", "closing", &["k0"]));
}

#[test]
fn there_is_no_deadlock_with_one_whose_place_has_lapsed() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("bob", "r2", &["b"]));
    let wait = Duration::from_secs(3);
    world.queue(ask("ann", "r3", &["b"]).waiting_for(wait));
    world.pass(wait + GRACE);
    world.queue(ask("bob", "r4", &["a"]));
}

#[test]
fn one_whose_place_has_lapsed_is_asked_again_whether_it_closes_a_cycle() {
    let mut world = World::with(&["ann", "bob", "cid"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("bob", "r2", &["b"]));
    world.queue(ask("cid", "r3", &["b"]));
    let wait = Duration::from_secs(3);
    world.queue(ask("ann", "r4", &["b"]).waiting_for(wait));
    world.pass(wait + GRACE);
    world.queue(ask("bob", "r5", &["a"]));
    let path = refused(world.acquire(ask("ann", "r4", &["b"]).waiting()));
    assert_eq!(path, ["ann", "test:b", "bob", "test:a"]);
}

#[test]
fn there_is_no_deadlock_with_the_dead() {
    for death in ["gone", "ran out", "ended"] {
        let mut world = chain(3);
        match death {
            "gone" => world.crash("s1"),
            "ran out" => drop(world.heartbeat("s1", Some(Duration::ZERO))),
            _ => world.end("s1", &["k1"]),
        }
        let answer = world.acquire(ask("s2", "closing", &["k0"]).waiting());
        assert!(matches!(answer, Acquired::Queued(_)), "{death}: {answer:?}");
    }
}

#[test]
fn there_is_no_deadlock_over_a_lease_that_ran_out() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("bob", "r2", &["b"]).lasting(TTL * 2));
    world.queue(ask("bob", "r3", &["a"]));
    world.pass(TTL);
    world.queue(ask("ann", "r4", &["b"]));
}

#[test]
fn of_two_who_close_a_cycle_at_the_same_moment_one_is_refused() {
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    world.take(ask("bob", "r2", &["b"]));
    let ann = world.decide(Op::acquire(ask("ann", "r3", &["b"]).waiting()));
    let bob = world.decide(Op::acquire(ask("bob", "r4", &["a"]).waiting()));
    assert!(world.finish(&ann).is_ok());
    assert_eq!(world.finish(&bob), Err(Conflict));
    refused(world.acquire(ask("bob", "r4", &["a"]).waiting()));
}

/// A cycle that was closed behind the back of the search, as too long a one can be.
fn closed(length: usize) -> World {
    let world = chain(length);
    let mut closed = world.with_wait(&ask(&format!("s{}", length - 1), "closing", &["k0"]).waiting());
    closed.pass(Duration::from_secs(1));
    closed
}

fn victims(world: &World, length: usize) -> Vec<(usize, Cycle)> {
    let mut victims = Vec::new();
    for n in 0..length {
        let own = if n == length - 1 { "closing".to_owned() } else { format!("wait{n}") };
        let wanted = keys(&[&format!("k{}", (n + 1) % length)]);
        let (who, own) = (session(&format!("s{n}")), request(&own));
        let (found, _) = world.load(|view| refused_afterwards(view, &who, &own, &wanted));
        victims.extend(found.map(|cycle| (n, cycle)));
    }
    victims
}

#[test]
fn a_cycle_found_afterwards_has_exactly_one_victim() {
    for length in [2, 3, 7, 50] {
        let victims = victims(&closed(length), length);
        assert_eq!(victims.len(), 1, "of {length}");
        assert_eq!(victims[0].1.steps().len(), length);
    }
}

#[test]
fn the_victim_of_a_cycle_found_afterwards_is_the_one_who_came_last() {
    let mut world = World::with(&["s0", "s1", "s2"]);
    for n in 0..3 {
        world.take(ask(&format!("s{n}"), &format!("hold{n}"), &[&format!("k{n}")]));
    }
    for n in [2, 0, 1] {
        world.pass(Duration::from_secs(1));
        let own = if n == 2 { "closing".to_owned() } else { format!("wait{n}") };
        world = world.with_wait(&ask(&format!("s{n}"), &own, &[&format!("k{}", (n + 1) % 3)]).waiting());
    }
    let found: Vec<usize> = victims(&world, 3).into_iter().map(|(n, _)| n).collect();
    assert_eq!(found, [1]);
}

#[test]
fn nobody_is_refused_afterwards_without_a_cycle_or_without_a_place() {
    let world = chain(5);
    assert!(victims(&world, 5).is_empty());
    let mut over = closed(5);
    over.leave("s2", "wait2", &["k3"]);
    assert!(victims(&over, 5).is_empty());
}
