//! Keeping and giving back: renewal, release, giving up waiting.
//!
//! Only the lease that is meant is ever touched: a late renewal or release of an old one finds another
//! fence, or another session, and changes nothing.

use crate::acquire::{Lease, PublicHolder};
use crate::key::Key;
use crate::lock::{Fence, Holder, Lock, Mode, Ttl};
use crate::session::{RequestId, SessionId};
use crate::view::{Changes, Decided, Draft, View};

/// What comes of renewing or releasing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// The lease was extended from now.
    Renewed(Lease),
    /// The lease has ended by this, or had ended before.
    Released,
    /// Somebody else holds the key.
    NotHolder(Vec<PublicHolder>),
    /// Nobody holds it.
    NotHeld,
}

/// Extends the lease of `session`, from now, by `ttl` or by what it was taken with.
///
/// A lease that has run out is over, even if nobody has taken the key since: its holder may have been
/// told so.
///
/// # Errors
/// What it has not seen yet.
pub fn renew(
    view: &View,
    session: &SessionId,
    key: &Key,
    fence: Option<Fence>,
    ttl: Option<Ttl>,
) -> Decided<(Kept, Changes)> {
    let mut draft = Draft::new(view);
    let now = draft.now();
    let Some(lease) = draft.live_lease(session, key, fence)? else {
        return Ok((draft.not_held(key)?, Changes::default()));
    };
    let ttl = ttl.unwrap_or(lease.ttl);
    let renewed = Holder { ttl, expires: now + ttl.length(), ..lease };
    let answer = Kept::Renewed(Lease::of(key, &renewed, true));
    for holder in &mut draft.lock_mut(key)?.holders {
        if holder.session == *session {
            *holder = renewed.clone();
        }
    }
    Ok((answer, draft.into_changes()))
}

/// Ends the lease of `session` and grants the key to whoever is next.
///
/// With the fence of the lease it may be repeated: a lease that is over stays over. Without it, a free
/// key is reported as not held.
///
/// # Errors
/// What it has not seen yet.
pub fn release(
    view: &View,
    session: &SessionId,
    key: &Key,
    fence: Option<Fence>,
) -> Decided<(Kept, Changes)> {
    let mut draft = Draft::new(view);
    let matches = |h: &Holder| h.session == *session && (fence.is_none() || h.fence == fence);
    let lock = draft.lock(key)?;
    if lock.holders.iter().any(matches) {
        let others = lock.holders.iter().filter(|holder| !matches(holder)).cloned().collect();
        let left = Lock { holders: others, queue: lock.queue.clone() };
        draft.set_lock(key, left);
        if !draft.lock(key)?.queue.is_empty() {
            draft.settle([key])?;
        }
        return Ok((Kept::Released, draft.into_changes()));
    }
    let answer = match draft.not_held(key)? {
        Kept::NotHeld if fence.is_some() => Kept::Released,
        // Held again by the same session under a later fence: the lease that was meant is over.
        Kept::NotHolder(holders) if holders.iter().any(|holder| holder.session == *session) => Kept::Released,
        other => other,
    };
    Ok((answer, Changes::default()))
}

/// Serves the queues of these keys as far as one commit goes.
///
/// # Errors
/// What it has not seen yet.
pub fn serve(view: &View, keys: &[Key]) -> Decided<((), Changes)> {
    let mut draft = Draft::new(view);
    draft.need_locks(keys)?;
    draft.settle(keys)?;
    Ok(((), draft.into_changes()))
}

/// What comes of giving up a wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Left {
    /// It no longer waits.
    Gone,
    /// Too late: it had been granted.
    Granted(Vec<Lease>),
}

/// Takes a request out of the queues, unless it was granted in the meantime.
///
/// # Errors
/// What it has not seen yet.
pub fn leave(
    view: &View,
    session: &SessionId,
    request: &RequestId,
    keys: &[Key],
) -> Decided<(Left, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_locks(keys)?;
    if let Some(leases) = granted(&draft, session, request, keys)? {
        return Ok((Left::Granted(leases), Changes::default()));
    }
    let Some(first) = keys.first() else { return Ok((Left::Gone, Changes::default())) };
    let waiter = draft.lock(first)?.queue.iter().find(|waiter| waiter.is(session, request)).cloned();
    if let Some(waiter) = waiter {
        draft.remove_waiter(&waiter, first)?;
        draft.settle(keys)?;
    }
    Ok((Left::Gone, draft.into_changes()))
}

/// Where a queued request stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It holds every key.
    Granted(Vec<Lease>),
    /// It is in the queue.
    Queued(Queued),
    /// It is neither: its session ended, its place has lapsed, or its session had got the keys shared by
    /// another request. Asking again tells.
    Gone,
}

/// A place in a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queued {
    /// How many are ahead in the longest of its queues.
    pub ahead: usize,
    /// When the first of those in the way will have run out, unless they renew.
    pub recheck: crate::time::Timestamp,
}

/// Looks after a queued request: grants whatever has become free since, to whomever it is due.
///
/// # Errors
/// What it has not seen yet.
pub fn look_after(
    view: &View,
    session: &SessionId,
    request: &RequestId,
    keys: &[Key],
) -> Decided<(Waiting, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_locks(keys)?;
    draft.need_sessions([session])?;
    draft.settle(keys)?;
    let waiting = match granted(&draft, session, request, keys)? {
        Some(leases) => Waiting::Granted(leases),
        None => draft.queued(session, request, keys)?,
    };
    Ok((waiting, draft.into_changes()))
}

/// The leases of a request that was granted. Since that is all or nothing, one lease of its own shows it;
/// the other keys may have been its session's before.
fn granted(
    draft: &Draft<'_>,
    session: &SessionId,
    request: &RequestId,
    keys: &[Key],
) -> Decided<Option<Vec<Lease>>> {
    let mut leases = Vec::new();
    for key in keys {
        let Some(lease) = draft.live_lease(session, key, None)? else { return Ok(None) };
        leases.push(Lease::of(key, &lease, lease.request != *request));
    }
    Ok(leases.iter().any(|lease| !lease.already_held).then_some(leases))
}

impl Draft<'_> {
    fn live_lease(&self, session: &SessionId, key: &Key, fence: Option<Fence>) -> Decided<Option<Holder>> {
        let lease = self.lock(key)?.held_by(session);
        let Some(lease) = lease.filter(|lease| fence.is_none() || lease.fence == fence) else {
            return Ok(None);
        };
        Ok(self.is_held(lease)?.then(|| lease.clone()))
    }

    fn not_held(&self, key: &Key) -> Decided<Kept> {
        let holders = self.public_holders(key)?;
        Ok(if holders.is_empty() { Kept::NotHeld } else { Kept::NotHolder(holders) })
    }

    fn queued(&self, session: &SessionId, request: &RequestId, keys: &[Key]) -> Decided<Waiting> {
        let mut ahead_most = 0;
        let mut ends = Vec::new();
        for key in keys {
            let lock = self.lock(key)?;
            let Some(place) = lock.queue.iter().position(|waiter| waiter.is(session, request)) else {
                return self.answered_by_another(session, keys);
            };
            if !self.is_waiting(&lock.queue[place])? {
                return Ok(Waiting::Gone);
            }
            ahead_most = ahead_most.max(place);
            for holder in lock.holders.iter().filter(|holder| holder.session != *session) {
                ends.push(holder.expires);
                ends.extend(self.session(&holder.session)?.and_then(|session| session.expires));
            }
            for waiter in &lock.queue[..place] {
                ends.push(waiter.until);
                // Whose session nobody had to look at yet stands behind somebody else who is in the way.
                let known = self.session(&waiter.session).ok().flatten();
                ends.extend(known.and_then(|session| session.expires));
            }
        }
        let recheck = ends.into_iter().min().unwrap_or(self.now());
        Ok(Waiting::Queued(Queued { ahead: ahead_most, recheck }))
    }

    /// A request that is no longer queued and got nothing itself, because its session had got the keys by
    /// another one. Only exclusive leases are sure to be what it asked for.
    fn answered_by_another(&self, session: &SessionId, keys: &[Key]) -> Decided<Waiting> {
        let mut leases = Vec::new();
        for key in keys {
            let Some(lease) = self.covering_lease(key, session, Mode::Exclusive)? else {
                return Ok(Waiting::Gone);
            };
            leases.push(Lease::of(key, lease, true));
        }
        Ok(Waiting::Granted(leases))
    }
}
