//! Who comes next: dropping the dead, granting to those whose turn it is.
//!
//! A key's queue is served in order: nobody passes anybody but those it can share with. A request for
//! several keys stands in each of their queues and is granted on all of them in one step; until then
//! nobody who came later, and can't share with it, overtakes it on any.

use std::collections::BTreeSet;

use crate::key::Key;
use crate::lock::{Holder, Lock, Mode, Waiter};
use crate::session::SessionId;
use crate::view::{Decided, Draft};

/// Records that one decision changes before it leaves further waiters to the next one. With one more
/// request of 16 keys on top, and two writes a key, a commit stays within 125 operations.
const SETTLE_BUDGET: usize = 24;

impl Draft<'_> {
    /// Brings keys up to date: ends what has run out, then grants to waiters for as long as that is
    /// possible. A grant or a removal that concerns other keys brings those up to date too. What does not
    /// fit into one commit is noted as unfinished: a commit gives one new lease of a key, since its
    /// revision is the fence of every lease it gives.
    pub(crate) fn settle<'k>(&mut self, keys: impl IntoIterator<Item = &'k Key>) -> Decided<()> {
        let mut unsettled = BTreeSet::new();
        for key in keys {
            // Most keys are free and wanted by nobody.
            if !self.lock(key)?.is_empty() {
                unsettled.insert(key.clone());
            }
        }
        while let Some(key) = unsettled.pop_first() {
            self.drop_dead_holders(&key)?;
            let mut passed = 0;
            while let Some(next) = self.lock(&key)?.queue.get(passed).cloned() {
                if self.changed_records() >= SETTLE_BUDGET {
                    self.leave_unfinished(&key);
                    break;
                }
                if !self.is_waiting(&next)? {
                    self.remove_waiter(&next, &key)?;
                } else if self.is_grantable(&next, &key)? {
                    if self.grants_anew(keys_of(&next, &key))? {
                        self.leave_unfinished(&key);
                        break;
                    }
                    self.grant_waiter(&next, &key)?;
                } else if lets_others_by(self.lock(&key)?, &next) {
                    passed += 1;
                    continue;
                } else {
                    break;
                }
                unsettled.extend(next.keys.iter().filter(|other| **other != key).cloned());
            }
        }
        Ok(())
    }

    /// Whether a lease still stands: neither it nor its session has ended.
    pub(crate) fn is_held(&self, holder: &Holder) -> Decided<bool> {
        Ok(self.now() < holder.expires && self.is_alive(&holder.session)?)
    }

    /// Whether somebody in a queue is still waiting.
    pub(crate) fn is_waiting(&self, waiter: &Waiter) -> Decided<bool> {
        Ok(self.now() < waiter.until && self.is_alive(&waiter.session)?)
    }

    /// Whether nothing stands between a request and a key: no holder it can't coexist with, nobody ahead
    /// of it in the queue. `ahead` are those who came first.
    pub(crate) fn is_free_for(
        &self,
        key: &Key,
        session: &SessionId,
        mode: Mode,
        ahead: &[Waiter],
    ) -> Decided<bool> {
        Ok(self.blockers(key, session, mode, ahead)?.is_empty())
    }

    /// Whether this decision gives out a new lease of one of these keys already.
    pub(crate) fn grants_anew(&self, keys: &[Key]) -> Decided<bool> {
        for key in keys {
            if self.lock(key)?.has_new_grant() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The sessions that stand between a request and a key.
    pub(crate) fn blockers(
        &self,
        key: &Key,
        session: &SessionId,
        mode: Mode,
        ahead: &[Waiter],
    ) -> Decided<Vec<Blocker>> {
        let mut blockers = Vec::new();
        let lock = self.lock(key)?;
        let holders = &lock.holders;
        // Whoever blocks an exclusive waiter ahead need not block a shared request behind it, and the
        // request's own session may block that waiter.
        let in_own_way = lock.held_by(session).is_some() || ahead.iter().any(|w| w.session == *session);
        let same_blockers = mode == Mode::Exclusive && !in_own_way;
        self.need_sessions(holders.iter().filter(|h| self.now() < h.expires).map(|h| &h.session))?;
        for holder in holders {
            if holder.session != *session && !holder.mode.coexists(mode) && self.is_held(holder)? {
                blockers.push(Blocker { session: holder.session.clone(), adds_nobody: false });
            }
        }
        for waiter in ahead {
            if waiter.session != *session && !waiter.mode.coexists(mode) && self.now() < waiter.until {
                let adds_nobody = same_blockers && !waiter.elsewhere;
                blockers.push(Blocker { session: waiter.session.clone(), adds_nobody });
            }
        }
        Ok(blockers)
    }

    /// Takes a request out of every queue it stands in, and out of its session's list.
    pub(crate) fn remove_waiter(&mut self, waiter: &Waiter, key: &Key) -> Decided<()> {
        for key in keys_of(waiter, key) {
            self.lock_mut(key)?.queue.retain(|other| !other.is(&waiter.session, &waiter.request));
        }
        if let Some(mut session) = self.session(&waiter.session)?.cloned() {
            session.waits.retain(|wait| wait.request != waiter.request);
            self.set_session(&waiter.session, Some(session));
        }
        Ok(())
    }

    /// Makes a request the holder of a key. What its session holds already is refreshed and stays the
    /// same lease; the fence of a new one is the revision of the commit that stores this.
    pub(crate) fn grant(&mut self, key: &Key, asked: Holder) -> Decided<&Holder> {
        let lease = match self.covering_lease(key, &asked.session, asked.mode)?.cloned() {
            // The longer ttl of the two stays: what the session does under the first request relies on it.
            Some(held) => {
                let (ttl, expires) = (asked.ttl.max(held.ttl), asked.expires.max(held.expires));
                Holder { ttl, expires: expires.max(self.now() + ttl.length()), ..held }
            }
            None => asked,
        };
        let lock = self.lock_mut(key)?;
        lock.holders.retain(|other| other.session != lease.session);
        // Most keys have one holder, and never more.
        lock.holders.reserve_exact(1);
        lock.holders.push(lease);
        Ok(&lock.holders[lock.holders.len() - 1])
    }

    /// The lease with which a session need not wait for a key.
    pub(crate) fn covering_lease(
        &self,
        key: &Key,
        session: &SessionId,
        mode: Mode,
    ) -> Decided<Option<&Holder>> {
        let lease = self.lock(key)?.held_by(session).filter(|lease| lease.mode.covers(mode));
        match lease {
            Some(lease) if self.is_held(lease)? => Ok(Some(lease)),
            _ => Ok(None),
        }
    }

    /// Where a session first waits for a key in such a way that it need not wait for it again.
    pub(crate) fn own_place(&self, queue: &[Waiter], session: &SessionId, mode: Mode) -> Option<usize> {
        queue.iter().position(|waiter| {
            waiter.session == *session && waiter.mode.covers(mode) && self.now() < waiter.until
        })
    }

    /// Takes out of a queue what a session asked for there and holds by now, wherever it stands: it must
    /// not wait for those who wait for that very session.
    pub(crate) fn drop_answered(&mut self, key: &Key, session: &SessionId) -> Decided<()> {
        let own = self.lock(key)?.queue.iter().filter(|waiter| waiter.session == *session);
        for waiter in own.cloned().collect::<Vec<_>>() {
            let mut is_answered = true;
            for key in keys_of(&waiter, key) {
                is_answered &= self.covering_lease(key, session, waiter.mode)?.is_some();
            }
            if is_answered {
                // The longer ttl counts, also for a request that waited beside the one that was granted.
                if self.is_waiting(&waiter)? {
                    for key in keys_of(&waiter, key) {
                        self.grant(key, waiter.granted(self.now()))?;
                    }
                }
                self.remove_waiter(&waiter, key)?;
            }
        }
        Ok(())
    }

    fn drop_dead_holders(&mut self, key: &Key) -> Decided<()> {
        let lock = self.lock(key)?;
        self.need_sessions(lock.holders.iter().filter(|h| self.now() < h.expires).map(|h| &h.session))?;
        let mut dead = Vec::new();
        for holder in &lock.holders {
            if !self.is_held(holder)? {
                dead.push(holder.session.clone());
            }
        }
        if !dead.is_empty() {
            self.lock_mut(key)?.holders.retain(|holder| !dead.contains(&holder.session));
        }
        Ok(())
    }

    fn is_grantable(&self, waiter: &Waiter, key: &Key) -> Decided<bool> {
        self.need_locks(&waiter.keys)?;
        for key in keys_of(waiter, key) {
            if self.covering_lease(key, &waiter.session, waiter.mode)?.is_some() {
                continue;
            }
            let ahead = waiters_ahead(self.lock(key)?, waiter);
            let dead_do_not_block = self.still_waiting(ahead)?;
            if !self.is_free_for(key, &waiter.session, waiter.mode, &dead_do_not_block)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn still_waiting(&self, waiters: &[Waiter]) -> Decided<Vec<Waiter>> {
        let mut waiting = Vec::new();
        for waiter in waiters {
            if self.is_waiting(waiter)? {
                waiting.push(waiter.clone());
            }
        }
        Ok(waiting)
    }

    fn grant_waiter(&mut self, waiter: &Waiter, key: &Key) -> Decided<()> {
        self.remove_waiter(waiter, key)?;
        for key in keys_of(waiter, key) {
            self.grant(key, waiter.granted(self.now()))?;
        }
        for key in keys_of(waiter, key) {
            self.drop_answered(key, &waiter.session)?;
        }
        Ok(())
    }
}

/// A session that stands between a request and a key.
pub(crate) struct Blocker {
    /// Who.
    pub(crate) session: SessionId,
    /// It waits in this queue and nowhere else, and whoever blocks it there blocks the request too.
    pub(crate) adds_nobody: bool,
}

impl Waiter {
    /// The lease that this request becomes.
    pub(crate) fn granted(&self, now: crate::time::Timestamp) -> Holder {
        Holder {
            session: self.session.clone(),
            request: self.request.clone(),
            mode: self.mode,
            since: now,
            ttl: self.ttl,
            expires: now + self.ttl.length(),
            fence: None,
        }
    }
}

/// Whether those behind a waiter that can't be served yet may be: it wants to share, waits for another of
/// its keys, and nobody keeps this one to himself.
fn lets_others_by(lock: &Lock, waiter: &Waiter) -> bool {
    waiter.mode == Mode::Shared && lock.holders.iter().all(|holder| holder.mode == Mode::Shared)
}

/// Those in a lock's queue who came before `waiter`.
pub(crate) fn waiters_ahead<'l>(lock: &'l Lock, waiter: &Waiter) -> &'l [Waiter] {
    let place = lock.queue.iter().position(|other| other.is(&waiter.session, &waiter.request));
    &lock.queue[..place.unwrap_or(lock.queue.len())]
}

/// Every key that a waiter found in the queue of `key` asks for.
pub(crate) fn keys_of<'w>(waiter: &'w Waiter, key: &'w Key) -> &'w [Key] {
    if waiter.keys.is_empty() { std::slice::from_ref(key) } else { &waiter.keys }
}
