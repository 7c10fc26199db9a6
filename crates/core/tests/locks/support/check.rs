//! The rules of the lock contract as checks: on a world at rest, and on each commit.

use std::collections::BTreeSet;
use std::fmt;

use bell_core::acquire::Acquired;
use bell_core::deadlock::Cycle;
use bell_core::key::Key;
use bell_core::lock::{Holder, Lock, Mode, Waiter};

use super::op::{Answer, Op};
use super::truth::Edge;
use super::world::{Decision, World};

/// A rule that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    pub(crate) rule: &'static str,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.rule, self.what)
    }
}

type Checked = Result<(), Broken>;

fn demand(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Broken { rule, what: what() }) }
}

/// What is true of every world at any moment.
pub(crate) fn state(world: &World) -> Checked {
    for (key, stored) in &world.locks {
        let lock = &stored.1;
        demand(!lock.is_empty(), "storage", || format!("{key} has a record for nothing"))?;
        let exclusive = lock.holders.iter().any(|holder| holder.mode == Mode::Exclusive);
        demand(lock.holders.len() == 1 || !exclusive, "L2", || format!("{key} is held by {lock:?}"))?;
        let sessions: BTreeSet<_> = lock.holders.iter().map(|holder| &holder.session).collect();
        demand(sessions.len() == lock.holders.len(), "L4", || format!("{key} is held twice: {lock:?}"))?;
        demand(!lock.has_new_grant(), "L3", || format!("{key} is held without a fence"))?;
        queue_agrees_with_sessions(world, key, lock)?;
    }
    sessions_agree_with_queues(world)?;
    let caught = world.deadlocked();
    demand(caught.is_empty(), "L8", || format!("{caught:?} wait for themselves: {:?}", world.edges()))
}

fn queue_agrees_with_sessions(world: &World, key: &Key, lock: &Lock) -> Checked {
    let requests: BTreeSet<_> = lock.queue.iter().map(|waiter| (&waiter.session, &waiter.request)).collect();
    demand(requests.len() == lock.queue.len(), "storage", || format!("a request is queued twice: {lock:?}"))?;
    for waiter in &lock.queue {
        let Some(session) = world.session(&waiter.session) else { continue };
        let wait = session.waits.iter().find(|wait| wait.request == waiter.request);
        demand(wait.is_some_and(|wait| wait.keys.contains(key)), "storage", || {
            format!("{} does not know that it waits for {key}", waiter.session)
        })?;
    }
    Ok(())
}

fn sessions_agree_with_queues(world: &World) -> Checked {
    for (id, stored) in &world.sessions {
        for wait in &stored.1.waits {
            for key in &wait.keys {
                let queue = world.lock(key).map(|lock| lock.queue.as_slice()).unwrap_or_default();
                let waits = queue.iter().any(|w| w.request == wait.request && w.session == *id);
                demand(waits, "L7", || format!("{id} should wait for {key} too"))?;
            }
        }
    }
    Ok(())
}

/// What is true of every commit. Who had died is judged as of the decision: a process can die at any
/// moment after it.
pub(crate) fn commit(before: &World, decision: &Decision, after: &World) -> Checked {
    let then;
    let before = if before.gone == decision.gone {
        before
    } else {
        then = World { gone: decision.gone.clone(), ..before.clone() };
        &then
    };
    for key in decision.changes.locks.keys() {
        let was = before.lock(key).cloned().unwrap_or_default();
        let is = after.lock(key).cloned().unwrap_or_default();
        for lease in is.holders.iter().filter(|lease| !was.holders.iter().any(|old| same(old, lease))) {
            fence_rises(before, key, lease)?;
            holder_is_alive(before, after, decision, lease)?;
            nobody_is_overtaken(before, key, &was, &is, lease)?;
        }
        queue_keeps_its_order(before, key, &was, &is)?;
        for old in &was.holders {
            match is.holders.iter().find(|lease| same(old, lease)) {
                Some(lease) => lease_is_kept(before, key, old, lease)?,
                None => lease_may_end(before, decision, key, old, &is)?,
            }
        }
    }
    nobody_is_forgotten(decision, after)?;
    match (&decision.op, &decision.answer) {
        (Op::Acquire(ask), Answer::Acquired(Acquired::Deadlock(cycle))) => {
            cycle_exists(&after.with_wait(ask), cycle)
        }
        (Op::Acquire(ask), Answer::Acquired(Acquired::Busy(_))) => {
            let queues = after.locks.values().flat_map(|stored| &stored.1.queue);
            let trace = queues.filter(|waiter| waiter.is(&ask.session, &ask.request)).count();
            demand(trace == 0, "L5", || format!("{ask:?} left a trace"))
        }
        _ => Ok(()),
    }
}

fn same(one: &Holder, other: &Holder) -> bool {
    one.session == other.session && one.fence == other.fence
}

fn fence_rises(before: &World, key: &Key, lease: &Holder) -> Checked {
    let highest = before.highest.get(key);
    demand(highest.is_none_or(|highest| lease.fence > Some(*highest)), "L3", || {
        format!("{key} was granted with {:?} after {highest:?}", lease.fence)
    })
}

fn holder_is_alive(before: &World, after: &World, decision: &Decision, lease: &Holder) -> Checked {
    let newborn = before.session(&lease.session).is_none() && after.session(&lease.session).is_some();
    demand(newborn || before.is_alive(&lease.session), "L6", || {
        format!("{} is dead and was granted a key by {:?}", lease.session, decision.op)
    })
}

fn nobody_is_overtaken(before: &World, key: &Key, was: &Lock, is: &Lock, lease: &Holder) -> Checked {
    let place = was.queue.iter().position(|waiter| waiter.is(&lease.session, &lease.request));
    for waiter in &was.queue[..place.unwrap_or(was.queue.len())] {
        let clash = waiter.session != lease.session && !waiter.mode.coexists(lease.mode);
        let waits_on = is.queue.iter().any(|other| other.is(&waiter.session, &waiter.request));
        demand(!(clash && waits_on && before.is_live_waiter(waiter)), "L6", || {
            format!("{} overtook {} on {key}", lease.session, waiter.session)
        })?;
    }
    Ok(())
}

/// Those who wait on stand as they stood, and whoever is new stands behind them, unless its session stood
/// there before.
fn queue_keeps_its_order(before: &World, key: &Key, was: &Lock, is: &Lock) -> Checked {
    let live = was.queue.iter().filter(|waiter| before.is_live_waiter(waiter));
    let places = live.map(|old| is.queue.iter().position(|waiter| waiter.is(&old.session, &old.request)));
    let places: Vec<usize> = places.flatten().collect();
    let stood = |waiter: &Waiter| {
        let held = was.held_by(&waiter.session).is_some_and(|lease| before.is_live_lease(lease));
        held || was.queue.iter().any(|w| w.session == waiter.session)
    };
    let newcomer = is.queue.iter().position(|waiter| !stood(waiter));
    let in_front = places.iter().all(|place| newcomer.is_none_or(|new| *place < new));
    demand(in_front && places.is_sorted(), "L6", || {
        format!("the queue of {key} was {:?} and is {:?}", was.queue, is.queue)
    })
}

/// Whoever could have a key is granted it by the commit that serves its queue, unless that says that it
/// is not done.
fn nobody_is_forgotten(decision: &Decision, after: &World) -> Checked {
    if decision.changes.is_empty() || !decision.changes.unfinished.is_empty() || after.gone != decision.gone {
        return Ok(());
    }
    let served: &[Key] = match &decision.op {
        Op::Acquire(ask) => &ask.keys,
        Op::LookAfter(waits) | Op::Leave(waits) => &waits.keys,
        Op::Release(lease) => std::slice::from_ref(&lease.key),
        Op::Serve(keys) => keys,
        Op::End { held, .. } => held,
        Op::Break(key) => std::slice::from_ref(key),
        Op::Renew { .. } | Op::Heartbeat { .. } => &[],
    };
    let queues = served.iter().filter_map(|key| after.lock(key)).flat_map(|lock| &lock.queue);
    let free: Vec<_> = queues.filter(|waiter| after.could_be_granted(waiter)).collect();
    demand(free.is_empty(), "L6", || format!("{:?} left {free:?} waiting for nothing", decision.op))
}

fn lease_is_kept(before: &World, key: &Key, old: &Holder, lease: &Holder) -> Checked {
    demand(old.since == lease.since, "L4", || format!("{lease:?} on {key} began at {:?}", old.since))?;
    demand(old.expires == lease.expires || before.is_live_lease(old), "L9", || {
        format!("{old:?} on {key} had run out and was extended")
    })
}

fn lease_may_end(before: &World, decision: &Decision, key: &Key, old: &Holder, is: &Lock) -> Checked {
    let by_owner = match &decision.op {
        Op::Release(lease) => {
            lease.session == old.session
                && lease.key == *key
                && lease.fence.is_none_or(|f| Some(f) == old.fence)
        }
        Op::End { session, .. } => *session == old.session,
        Op::Break(broken) => broken == key,
        _ => false,
    };
    let upgraded = old.mode == Mode::Shared
        && is.held_by(&old.session).is_some_and(|lease| lease.mode == Mode::Exclusive);
    demand(by_owner || upgraded || !before.is_live_lease(old), "L15", || {
        format!("{:?} ended the lease {old:?} on {key}", decision.op)
    })
}

/// Whether the cycle is one: each session waits for its key, which the next one blocks.
fn cycle_exists(world: &World, cycle: &Cycle) -> Checked {
    let edges = world.edges();
    let steps = cycle.steps();
    let next = steps.iter().cycle().skip(1);
    for ((from, key), (to, _)) in steps.iter().zip(next) {
        let edge = Edge { from: from.clone(), key: key.clone(), to: to.clone() };
        demand(edges.contains(&edge), "L8", || format!("no such wait: {edge:?} among {edges:?}"))?;
    }
    demand(steps.len() > 1, "L8", || format!("{steps:?} is no cycle"))
}
