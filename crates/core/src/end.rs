//! Keeping a session alive and ending it with all it held; breaking a lock.

use std::time::Duration;

use crate::acquire::{MAX_KEYS, PublicHolder};
use crate::key::Key;
use crate::lock::Fence;
use crate::session::{Revoked, SessionId};
use crate::view::{Changes, Decided, Draft, View};

/// What a session hears when it shows that it is alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It lives on. These leases of its were broken since the last time.
    Alive(Vec<Revoked>),
    /// It has ended. That is final: others may hold what it held.
    Ended,
}

/// Extends a session from now by `ttl`, or (`None`) leaves it to its leases, which then stand for
/// themselves.
///
/// # Errors
/// What it has not seen yet.
pub fn heartbeat(view: &View, id: &SessionId, ttl: Option<Duration>) -> Decided<(Heard, Changes)> {
    let mut draft = Draft::new(view);
    let alive = draft.is_alive(id)?;
    let Some(mut session) = draft.session(id)?.filter(|_| alive).cloned() else {
        return Ok((Heard::Ended, Changes::default()));
    };
    session.expires = ttl.map(|ttl| view.now + ttl);
    let revoked = std::mem::take(&mut session.revoked);
    draft.set_session(id, Some(session));
    Ok((Heard::Alive(revoked), draft.into_changes()))
}

/// Extends a session from now by its own ttl, and leaves its mail where it is: for whoever keeps it alive without being
/// its owner. Whether it lives.
///
/// # Errors
/// What it has not seen yet.
pub fn prolong(view: &View, id: &SessionId) -> Decided<(bool, Changes)> {
    let mut draft = Draft::new(view);
    let alive = draft.is_alive(id)?;
    let Some(mut session) = draft.session(id)?.filter(|_| alive).cloned() else {
        return Ok((false, Changes::default()));
    };
    if session.expires.is_some() {
        session.expires = Some(view.now + session.ttl());
        draft.set_session(id, Some(session));
    }
    Ok((true, draft.into_changes()))
}

/// Ends a session: its leases on `held` end and its places in queues are given up, in one commit. Leases
/// on keys that are not listed end with it all the same, since a lease without a session is over.
///
/// # Errors
/// What it has not seen yet.
pub fn end_session(view: &View, id: &SessionId, held: &[Key]) -> Decided<((), Changes)> {
    let mut draft = Draft::new(view);
    draft.need_sessions([id])?;
    let waits = draft.session(id)?.map(|session| session.waits.clone()).unwrap_or_default();
    let mut keys: Vec<Key> = held.to_vec();
    // Places beyond these are left to whoever comes across them: without a session they count for nothing.
    keys.extend(waits.into_iter().flat_map(|wait| wait.keys).take(MAX_KEYS));
    draft.need_locks(&keys)?;
    draft.set_session(id, None);
    for key in &keys {
        let lock = draft.lock_mut(key)?;
        lock.holders.retain(|holder| holder.session != *id);
        lock.queue.retain(|waiter| waiter.session != *id);
    }
    // A key that nobody waits for is left alone: looking for its other holders' sessions would only cost.
    let wanted: Vec<&Key> = keys.iter().filter(|key| has_queue(&draft, key)).collect();
    draft.settle(wanted)?;
    Ok(((), draft.into_changes()))
}

fn has_queue(draft: &Draft<'_>, key: &Key) -> bool {
    draft.lock(key).is_ok_and(|lock| !lock.queue.is_empty())
}

/// What becomes of a session that nobody keeps alive and that has nothing left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Faded {
    /// It was marked, or has been marked for too short a time: look again later.
    Fading,
    /// It has ended.
    Ended,
    /// It is kept alive, holds or waits.
    InUse,
}

/// How long a session must have had nothing before it is ended: whoever has its token may be about to
/// use it.
const FADE: Duration = Duration::from_secs(5);

/// Ends a session that lives by its leases alone and has none left (`held` are those it may have), in two
/// steps: it is marked first, and whatever it takes in between clears the mark.
///
/// # Errors
/// What it has not seen yet.
pub fn fade(view: &View, id: &SessionId, held: &[Key]) -> Decided<(Faded, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_sessions([id])?;
    draft.need_locks(held)?;
    let Some(mut session) = draft.session(id)?.cloned() else {
        return Ok((Faded::Ended, Changes::default()));
    };
    let mut in_use = session.expires.is_some() || !session.waits.is_empty();
    for key in held {
        let lease = draft.lock(key)?.held_by(id);
        in_use |= lease.is_some_and(|lease| view.now < lease.expires);
    }
    match session.fading {
        _ if in_use => Ok((Faded::InUse, Changes::default())),
        Some(since) if view.now.since(since) >= FADE => {
            let ((), changes) = end_session(view, id, held)?;
            Ok((Faded::Ended, changes))
        }
        Some(_) => Ok((Faded::Fading, Changes::default())),
        None => {
            session.fading = Some(view.now);
            draft.set_session(id, Some(session));
            Ok((Faded::Fading, draft.into_changes()))
        }
    }
}

/// Takes a key from whoever holds it, tells them through their sessions, and grants it to whoever is
/// next. Answers with those who held it; none: nobody did.
///
/// # Errors
/// What it has not seen yet.
pub fn break_lock(view: &View, key: &Key, reason: &str, by: &str) -> Decided<(Vec<PublicHolder>, Changes)> {
    let mut draft = Draft::new(view);
    let holders = draft.public_holders(key)?;
    for holder in &holders {
        if let Some(mut session) = draft.session(&holder.session)?.cloned() {
            let fence = holder.fence.unwrap_or(Fence(0));
            let (reason, by) = (reason.to_owned(), Some(by.to_owned()));
            session.revoked.push(Revoked { key: key.clone(), fence, reason, by });
            draft.set_session(&holder.session, Some(session));
        }
    }
    draft.lock_mut(key)?.holders.clear();
    draft.settle([key])?;
    Ok((holders, draft.into_changes()))
}
