//! Everything has a limit, and behind it things go on.

use bell_core::acquire::{Acquired, MAX_KEYS, MAX_WAITERS};
use bell_core::keep::Left;

use crate::support::names::{LONG, ask, key, keys, session};
use crate::support::op::{Answer, Op};
use crate::support::talk::{Vary, queued};
use crate::support::world::World;

/// The operations of one commit in the narrowest store.
const OPERATIONS: usize = 125;

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number:03}")).collect()
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn a_request_for_as_many_keys_as_allowed_is_granted_at_once_or_later() {
    let all = names("k", MAX_KEYS);
    let all = texts(&all);
    let mut world = World::with(&["ann", "bob"]);
    assert_eq!(world.take(ask("ann", "r1", &all)).len(), MAX_KEYS);
    world.queue(ask("bob", "r2", &all));
    world.end("ann", &all);
    assert!(all.iter().all(|name| world.holders(name) == ["bob"]));
}

#[test]
fn a_full_queue_takes_nobody_until_somebody_left() {
    let many = names("w", MAX_WAITERS);
    let mut world = World::with(&["ann", "bob"]);
    world.take(ask("ann", "r1", &["a"]));
    let mut lock = world.lock(&key("a")).expect("it is held").clone();
    for name in &many {
        world.mortal(name, LONG);
        let waits = world.with_wait(&ask(name, name, &["a"]).waiting());
        lock.queue.extend(waits.lock(&key("a")).and_then(|lock| lock.queue.last()).cloned());
        world.sessions.insert(session(name), waits.sessions[&session(name)].clone());
    }
    world.revision += 1;
    world.locks.insert(key("a"), std::sync::Arc::new((world.revision, lock)));

    let decision = world.decide(Op::acquire(ask("bob", "r2", &["a"]).waiting()));
    assert!(decision.changes.is_empty());
    let Answer::Acquired(Acquired::Busy(busy)) = decision.answer else { panic!("the queue is full") };
    assert_eq!((busy.queue_full, busy.waiting), (true, MAX_WAITERS));

    let last = &many[MAX_WAITERS - 1];
    let leave = world.decide(Op::Leave(queued(last, last, &["a"])));
    assert_eq!(world.commit(&leave), Ok(Answer::Left(Left::Gone)));
    let retry = world.decide(Op::acquire(ask("bob", "r2", &["a"]).waiting()));
    assert!(matches!(retry.answer, Answer::Acquired(Acquired::Queued(_))));
}

#[test]
fn a_long_service_is_done_in_several_commits_that_each_fit() {
    let sharers = names("s", 200);
    let mut world = World::with(&["ann"]);
    world.take(ask("ann", "r-ann", &["a"]));
    for name in &sharers {
        world.mortal(name, LONG);
        let wait = world.decide(Op::acquire(ask(name, name, &["a"]).shared().waiting()));
        world.commit(&wait).expect("nothing moved");
    }
    let mut next = world.decide(Op::End { session: session("ann"), held: keys(&["a"]) });
    let mut commits = 0;
    loop {
        let writes = 2 * next.changes.locks.len() + next.changes.sessions.len();
        assert!(writes <= OPERATIONS, "{writes} writes in one commit");
        world.commit(&next).expect("nothing moved");
        commits += 1;
        if next.changes.unfinished.is_empty() {
            break;
        }
        next = world.decide(Op::Serve(next.changes.unfinished.into_iter().collect()));
        assert!(!next.changes.is_empty(), "each commit gets further");
    }
    assert!(commits > 1);
    assert_eq!(world.holders("a").len(), sharers.len());
    assert!(world.forgotten().is_empty());
}

#[test]
fn nobody_overtakes_a_queue_that_is_not_served_to_its_end() {
    let held = names("k", 30);
    let waiters = names("w", 30);
    let mut world = World::with(&["ann", "zoe"]);
    for name in &held {
        world.take(ask("ann", name, &[name]));
    }
    for (name, waiter) in held.iter().zip(&waiters) {
        world.mortal(waiter, LONG);
        world.queue(ask(waiter, waiter, &[name]));
    }
    let end = world.decide(Op::End { session: session("ann"), held: keys(&texts(&held)) });
    assert!(!end.changes.unfinished.is_empty());
    world.finish(&end).expect("nothing moved");
    for name in &held {
        assert!(matches!(world.acquire(ask("zoe", "r", &[name])), Acquired::Busy(_)));
    }
    while !world.forgotten().is_empty() {
        world.serve(&texts(&held));
    }
    let served = held.iter().zip(&waiters).all(|(name, waiter)| world.holders(name) == [waiter.as_str()]);
    assert!(served);
}
