//! The wait-for graph: would this wait close a cycle?
//!
//! A session waits for whoever stands between it and one of its keys: holders it can't coexist with, and
//! those ahead of it in the queue. The search starts at the session that is about to wait and follows
//! these edges; if it comes back, waiting would never end. Edges exist only between live sessions, so
//! nobody is refused for a wait that is over. A run that called another waits for it, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::acquire::Call;
use crate::key::Key;
use crate::lock::{Mode, Waiter};
use crate::queue::Blocker;
use crate::session::{RequestId, SessionId};
use crate::view::{Decided, Draft, Missing, View};

/// `session, key, session, key, …`: each session waits for the key after it, which the next one blocks;
/// the last key is blocked by the first session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle(Vec<(SessionId, Key)>);

impl Cycle {
    /// A cycle that somebody else found, as they tell it.
    pub fn told(steps: Vec<(SessionId, Key)>) -> Self {
        Self(steps)
    }

    /// The sessions, each with the key it waits for.
    pub fn steps(&self) -> &[(SessionId, Key)] {
        &self.0
    }

    /// The path as text: session, key, session, key, …
    pub fn path(&self) -> Vec<String> {
        self.0.iter().flat_map(|(session, key)| [session.to_string(), key.to_string()]).collect()
    }
}

/// Looks for a cycle through a request that is already in the queue, and says whether that request is the
/// one to be refused: of all requests in the cycle the one that came last.
///
/// Needed only where the cycle is too long for the commit that queued the request to have expected all
/// of it.
///
/// # Errors
/// What it has not seen yet.
pub fn refused_afterwards(
    view: &View,
    session: &SessionId,
    request: &RequestId,
    keys: &[Key],
) -> Decided<Option<Cycle>> {
    let draft = Draft::new(view);
    draft.need_locks(keys)?;
    let Some(own) = find_waiter(&draft, session, request, keys)? else { return Ok(None) };
    let Some(cycle) = draft.cycle_through(session, keys, own.mode, None)? else { return Ok(None) };
    for (other, key) in cycle.steps().iter().skip(1) {
        let queue = &draft.lock(key)?.queue;
        let latest = queue.iter().filter(|waiter| waiter.session == *other).max_by_key(|w| age(w));
        if latest.is_some_and(|waiter| age(waiter) > age(&own)) {
            return Ok(None);
        }
    }
    Ok(Some(cycle))
}

/// Looks for a cycle through a request that is in the queue and the call that its session is for. Such a cycle may be
/// closed by others, who know nothing of the call, after the request was queued.
///
/// # Errors
/// What it has not seen yet.
pub fn waits_for_its_caller(
    view: &View,
    session: &SessionId,
    request: &RequestId,
    keys: &[Key],
    call: &Call,
) -> Decided<Option<Cycle>> {
    let draft = Draft::new(view);
    draft.need_locks(keys)?;
    let Some(own) = find_waiter(&draft, session, request, keys)? else { return Ok(None) };
    let cycle = draft.cycle_through(session, keys, own.mode, Some(call))?;
    Ok(cycle.filter(|cycle| cycle.steps().last().is_some_and(|(_, key)| *key == call.key)))
}

/// Looks for a cycle that a request for these keys would close, made for a run that was called and asked for by nobody yet.
///
/// # Errors
/// What it has not seen yet.
pub fn would_wait_for_its_caller(view: &View, keys: &[Key], call: &Call) -> Decided<Option<Cycle>> {
    let draft = Draft::new(view);
    draft.need_locks(keys)?;
    // It holds nothing and waits for nothing, so its record need not be looked for.
    let nobody = SessionId::from(call.key.as_str());
    let cycle = draft.cycle_through(&nobody, keys, Mode::Exclusive, Some(call))?;
    Ok(cycle.filter(|cycle| cycle.steps().last().is_some_and(|(_, key)| *key == call.key)))
}

fn age(waiter: &Waiter) -> (crate::time::Timestamp, &RequestId, &SessionId) {
    (waiter.since, &waiter.request, &waiter.session)
}

fn find_waiter(
    draft: &Draft<'_>,
    session: &SessionId,
    request: &RequestId,
    keys: &[Key],
) -> Decided<Option<Waiter>> {
    let Some(key) = keys.first() else { return Ok(None) };
    Ok(draft.lock(key)?.queue.iter().find(|waiter| waiter.is(session, request)).cloned())
}

impl Draft<'_> {
    /// The cycle that `start` would close by waiting for these keys, if any: the shortest one.
    pub(crate) fn cycle_through(
        &self,
        start: &SessionId,
        keys: &[Key],
        mode: Mode,
        call: Option<&Call>,
    ) -> Decided<Option<Cycle>> {
        let mut reached: BTreeMap<SessionId, (SessionId, Key)> = BTreeMap::new();
        let mut frontier = Vec::new();
        for key in keys {
            for blocker in self.blockers_at(key, start, mode)? {
                follow(blocker, start, key, &mut reached, &mut frontier);
            }
        }
        while !frontier.is_empty() {
            self.need_level(&frontier)?;
            for session in std::mem::take(&mut frontier) {
                if let Some(call) = call
                    && self.is_caller(&session, call)?
                {
                    return Ok(Some(trace(start, &session, call.key.clone(), &reached)));
                }
                for (key, blocker) in self.blockers_of(&session)? {
                    if blocker.session == *start {
                        return Ok(Some(trace(start, &session, key, &reached)));
                    }
                    follow(blocker, &session, &key, &mut reached, &mut frontier);
                }
            }
        }
        Ok(None)
    }

    /// Asks for everything the whole frontier rests on at once, so that a wide graph costs few reads.
    fn need_level(&self, frontier: &[SessionId]) -> Decided<()> {
        self.need_sessions(frontier)?;
        let mut missing = Missing::default();
        for id in frontier {
            let waits = self.session(id)?.map(|session| session.waits.as_slice()).unwrap_or_default();
            let keys = waits.iter().flat_map(|wait| &wait.keys);
            if let Err(more) = self.need_locks(keys) {
                missing.locks.extend(more.locks);
            }
        }
        if missing.locks.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Whether a live session is that of a run which waits for this call.
    fn is_caller(&self, id: &SessionId, call: &Call) -> Decided<bool> {
        let run = self.session(id)?.and_then(|session| session.who.run.as_ref());
        Ok(run.is_some_and(|run| call.callers.contains(run)) && self.is_alive(id)?)
    }

    /// Who stands between a live session and what it waits for.
    fn blockers_of(&self, id: &SessionId) -> Decided<Vec<(Key, Blocker)>> {
        let mut found = Vec::new();
        if !self.is_alive(id)? {
            return Ok(found);
        }
        let waits = self.session(id)?.map(|session| session.waits.as_slice()).unwrap_or_default();
        for wait in waits {
            for key in &wait.keys {
                let lock = self.lock(key)?;
                let waiter = lock.queue.iter().find(|waiter| waiter.is(id, &wait.request));
                let Some(waiter) = waiter.filter(|waiter| self.now() < waiter.until) else { continue };
                let blockers = self.blockers_at(key, id, waiter.mode)?;
                found.extend(blockers.into_iter().map(|blocker| (key.clone(), blocker)));
            }
        }
        Ok(found)
    }

    /// Who stands between a session and a key that it waits for, or is about to. A key that it holds
    /// already is open to it, and so is one that an earlier request of its own will have got.
    fn blockers_at(&self, key: &Key, session: &SessionId, mode: Mode) -> Decided<Vec<Blocker>> {
        if self.covering_lease(key, session, mode)?.is_some() {
            return Ok(Vec::new());
        }
        let queue = &self.lock(key)?.queue;
        let place = self.own_place(queue, session, mode).unwrap_or(queue.len());
        self.blockers(key, session, mode, &queue[..place])
    }
}

fn follow(
    blocker: Blocker,
    from: &SessionId,
    key: &Key,
    reached: &mut BTreeMap<SessionId, (SessionId, Key)>,
    frontier: &mut Vec<SessionId>,
) {
    if !blocker.adds_nobody && !reached.contains_key(&blocker.session) {
        reached.insert(blocker.session.clone(), (from.clone(), key.clone()));
        frontier.push(blocker.session);
    }
}

/// The way back from the session that `start` blocks to `start` itself.
fn trace(
    start: &SessionId,
    last: &SessionId,
    key: Key,
    reached: &BTreeMap<SessionId, (SessionId, Key)>,
) -> Cycle {
    let mut steps = vec![(last.clone(), key)];
    let mut seen = BTreeSet::new();
    let mut at = last;
    while at != start && seen.insert(at) {
        let Some((from, key)) = reached.get(at) else { break };
        steps.push((from.clone(), key.clone()));
        at = from;
    }
    steps.reverse();
    Cycle(steps)
}
