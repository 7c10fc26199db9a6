//! Taking locks: granted at once, refused, or queued.

use std::sync::Arc;
use std::time::Duration;

use crate::deadlock::Cycle;
use crate::key::Key;
use crate::lock::{Fence, Holder, Mode, Ttl, Waiter};
use crate::session::{Identity, RequestId, Session, SessionId, Wait};
use crate::time::Timestamp;
use crate::view::{Changes, Decided, Draft, View};

/// Keys in one request. Each costs an expectation and two writes, and granting somebody else's request on
/// the way may cost as many again: this fits the 125 operations of the narrowest store.
pub const MAX_KEYS: usize = 16;

/// Requests in one key's queue. A longer queue is served after everybody in it has given up, and its
/// record would outgrow what stores take.
pub const MAX_WAITERS: usize = 1_000;

/// How long a request that has stopped waiting keeps its place, so that a caller whose call ended can
/// call again: a long poll ends every minute at the latest, and the next one comes within seconds.
pub const GRACE: Duration = Duration::from_secs(5);

/// Asks for keys, all or nothing.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Who asks.
    pub session: SessionId,
    /// Repeated with the same id, a request has the one outcome.
    pub request: RequestId,
    /// In canonical order, none twice. See [`canonical_order`].
    pub keys: Vec<Key>,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How long the lease lasts without renewal.
    pub ttl: Ttl,
    /// How long to queue for it.
    pub wait: Duration,
    /// The session's record if this is its first request: stored in the same commit.
    pub new_session: Option<Arc<Session>>,
    /// The call that the session is for, if it is for one.
    pub call: Option<Arc<Call>>,
}

/// A call of one run by another, as an edge of the wait-for graph: the caller waits for what was called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// What stands for the call in the path of a deadlock. Nobody holds such a key.
    pub key: Key,
    /// The run that called, the one that called that one, and so on, as their sessions name them.
    pub callers: Vec<String>,
}

/// What comes of asking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The caller holds every key.
    Granted(Vec<Lease>),
    /// Somebody else holds one, and the caller did not want to wait (or the queue is full).
    Busy(Busy),
    /// The caller is in the queue.
    Queued(Busy),
    /// Waiting would have closed this cycle.
    Deadlock(Cycle),
    /// The caller's session has ended.
    SessionEnded,
    /// The caller holds this key shared and asks for it exclusively.
    Upgrade(Key),
    /// This commit serves others who share the key; ask once more after it.
    Again,
}

/// A grant, as its holder sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The key.
    pub key: Key,
    /// Exclusive or shared.
    pub mode: Mode,
    /// `None`: the revision of the commit that stores it.
    pub fence: Option<Fence>,
    /// Since when.
    pub since: Timestamp,
    /// How long each renewal makes it last.
    pub ttl: Ttl,
    /// When it ends unless renewed.
    pub expires: Timestamp,
    /// It was held before this request.
    pub already_held: bool,
}

/// Who stands in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Busy {
    /// The first key that was not free.
    pub key: Key,
    /// Its holders.
    pub holders: Vec<PublicHolder>,
    /// How many wait for it, the caller not counted.
    pub waiting: usize,
    /// The queue has no place left.
    pub queue_full: bool,
}

/// What anybody may know about a holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicHolder {
    /// The session.
    pub session: SessionId,
    /// Who that is.
    pub who: Identity,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The lease's fence.
    pub fence: Option<Fence>,
    /// For how long it has been held.
    pub held: Duration,
    /// How long it lasts from now on without renewal.
    pub left: Duration,
    /// How long each renewal makes it last.
    pub ttl: Ttl,
}

/// The order in which keys are taken, each once.
pub fn canonical_order(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort();
    keys.dedup();
    keys
}

/// Decides a request for keys.
///
/// # Errors
/// What it has not seen yet.
pub fn acquire(view: &View, ask: &Acquire) -> Decided<(Acquired, Changes)> {
    let mut draft = Draft::new(view);
    draft.need_locks(&ask.keys)?;
    draft.need_sessions([&ask.session])?;
    if let (Some(new), None) = (&ask.new_session, draft.session(&ask.session)?) {
        draft.put_session(&ask.session, Some(Arc::clone(new)));
    }
    if !draft.is_alive(&ask.session)? {
        return Ok((Acquired::SessionEnded, Changes::default()));
    }
    draft.revive(&ask.session)?;
    // A request for what is free and unwanted looks at nobody else's session: one round trip.
    draft.settle(&ask.keys)?;
    let answer = draft.answer(ask)?;
    Ok((answer, draft.into_changes()))
}

/// What is in the way of a request.
///
/// # Errors
/// What it has not seen yet.
pub fn in_the_way(view: &View, ask: &Acquire) -> Decided<Busy> {
    let mut draft = Draft::new(view);
    draft.need_locks(&ask.keys)?;
    draft.settle(&ask.keys)?;
    draft.busy(ask)
}

impl Draft<'_> {
    fn answer(&mut self, ask: &Acquire) -> Decided<Acquired> {
        if let Some(key) = self.upgrade(ask)? {
            return Ok(Acquired::Upgrade(key));
        }
        if self.is_open(ask)? {
            if self.shares_with_newcomers(ask)? {
                return Ok(Acquired::Again);
            }
            return Ok(Acquired::Granted(self.take(ask)?));
        }
        let busy = self.busy(ask)?;
        if ask.wait.is_zero() {
            return Ok(Acquired::Busy(busy));
        }
        if self.keep_place(ask)? {
            return Ok(Acquired::Queued(busy));
        }
        if let Some(cycle) = self.cycle_through(&ask.session, &ask.keys, ask.mode, ask.call.as_deref())? {
            return Ok(Acquired::Deadlock(cycle));
        }
        for key in &ask.keys {
            if self.lock(key)?.queue.len() >= MAX_WAITERS {
                return Ok(Acquired::Busy(Busy { queue_full: true, ..busy }));
            }
        }
        self.enqueue(ask)?;
        Ok(Acquired::Queued(busy))
    }

    /// A session that asks for something is not fading. Written down, so that whoever was about to end it
    /// finds its record changed.
    fn revive(&mut self, id: &SessionId) -> Decided<()> {
        if let Some(session) = self.session(id)?.filter(|session| session.fading.is_some()) {
            let revived = Session { fading: None, ..session.clone() };
            self.set_session(id, Some(revived));
        }
        Ok(())
    }

    /// A key held shared that is asked for exclusively. Two sessions that both did this would wait for
    /// each other for ever, so it is refused rather than queued.
    fn upgrade(&self, ask: &Acquire) -> Decided<Option<Key>> {
        for key in &ask.keys {
            if self.lock(key)?.held_by(&ask.session).is_some_and(|lease| !lease.mode.covers(ask.mode)) {
                return Ok(Some(key.clone()));
            }
        }
        Ok(None)
    }

    /// Whether this very decision has just given a lease to somebody that the caller would share a key
    /// with: both would have the same fence.
    fn shares_with_newcomers(&self, ask: &Acquire) -> Decided<bool> {
        for key in &ask.keys {
            let held = self.covering_lease(key, &ask.session, ask.mode)?.is_some();
            if !held && self.grants_anew(std::slice::from_ref(key))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether every key is held already or free.
    fn is_open(&self, ask: &Acquire) -> Decided<bool> {
        for key in &ask.keys {
            let lock = self.lock(key)?;
            let held = lock.held_by(&ask.session).is_some();
            if !held && !self.is_free_for(key, &ask.session, ask.mode, &lock.queue)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Holds every key from now on: what was held is refreshed, the rest is granted.
    fn take(&mut self, ask: &Acquire) -> Decided<Vec<Lease>> {
        let now = self.now();
        let mut leases = Vec::with_capacity(ask.keys.len());
        for key in &ask.keys {
            let lease = self.grant(key, ask.granted(now))?;
            leases.push(Lease::of(key, lease, lease.request != ask.request));
        }
        // A place that this request had kept is used up.
        if let Some(waiter) = self.place_of(ask)? {
            self.remove_waiter(&waiter, &ask.keys[0])?;
        }
        for key in &ask.keys {
            self.drop_answered(key, &ask.session)?;
        }
        Ok(leases)
    }

    fn busy(&self, ask: &Acquire) -> Decided<Busy> {
        for key in &ask.keys {
            let lock = self.lock(key)?;
            let held = lock.held_by(&ask.session).is_some();
            if !held && !self.is_free_for(key, &ask.session, ask.mode, &lock.queue)? {
                let waiting = lock.queue.iter().filter(|other| !other.is(&ask.session, &ask.request)).count();
                return Ok(Busy {
                    key: key.clone(),
                    holders: self.public_holders(key)?,
                    waiting,
                    queue_full: false,
                });
            }
        }
        let key = ask.keys[0].clone();
        Ok(Busy { key, holders: Vec::new(), waiting: 0, queue_full: false })
    }

    fn place_of(&self, ask: &Acquire) -> Decided<Option<Waiter>> {
        let Some(key) = ask.keys.first() else { return Ok(None) };
        Ok(self.lock(key)?.queue.iter().find(|waiter| waiter.is(&ask.session, &ask.request)).cloned())
    }

    /// A request that called again keeps its place and gets a new deadline; the longer ttl counts. A place that has lapsed is
    /// gone: others may wait by now because it no longer counted.
    fn keep_place(&mut self, ask: &Acquire) -> Decided<bool> {
        let Some(place) = self.place_of(ask)? else { return Ok(false) };
        if !self.is_waiting(&place)? {
            self.remove_waiter(&place, &ask.keys[0])?;
            return Ok(false);
        }
        let until = self.now() + ask.wait + GRACE;
        for key in &ask.keys {
            for waiter in &mut self.lock_mut(key)?.queue {
                if waiter.is(&ask.session, &ask.request) {
                    waiter.until = until;
                    waiter.ttl = waiter.ttl.max(ask.ttl);
                }
            }
        }
        Ok(true)
    }

    fn enqueue(&mut self, ask: &Acquire) -> Decided<()> {
        let Some(mut session) = self.session(&ask.session)?.cloned() else { return Ok(()) };
        let elsewhere = ask.keys.len() > 1 || !session.waits.is_empty();
        for wait in &session.waits {
            for key in &wait.keys {
                let queue = &mut self.lock_mut(key)?.queue;
                queue.iter_mut().filter(|w| w.session == ask.session).for_each(|w| w.elsewhere = true);
            }
        }
        // Whoever waits keeps its record, and nearly all wait for one thing.
        session.waits.reserve_exact(1);
        session.waits.push(Wait { request: ask.request.clone(), keys: ask.keys.clone() });
        self.set_session(&ask.session, Some(session));
        let waiter = ask.queued(self.now(), elsewhere);
        for key in &ask.keys {
            let place = self.place_for(key, &waiter)?;
            self.lock_mut(key)?.queue.insert(place, waiter.clone());
        }
        Ok(())
    }

    /// Where a new request stands: at the end, unless its session stands further ahead already. A lease
    /// may end, and an earlier request be given up, while this one waits; were it behind those who waited
    /// for its session, they would then wait for each other.
    fn place_for(&self, key: &Key, waiter: &Waiter) -> Decided<usize> {
        if self.covering_lease(key, &waiter.session, waiter.mode)?.is_some() {
            return Ok(0);
        }
        let queue = &self.lock(key)?.queue;
        Ok(self.own_place(queue, &waiter.session, waiter.mode).map_or(queue.len(), |place| place + 1))
    }
}

impl Acquire {
    fn granted(&self, now: Timestamp) -> Holder {
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

    fn queued(&self, now: Timestamp, elsewhere: bool) -> Waiter {
        Waiter {
            session: self.session.clone(),
            request: self.request.clone(),
            mode: self.mode,
            since: now,
            ttl: self.ttl,
            until: now + self.wait + GRACE,
            keys: if self.keys.len() > 1 { self.keys.clone() } else { Vec::new() },
            elsewhere,
        }
    }
}

impl Lease {
    pub(crate) fn of(key: &Key, holder: &Holder, already_held: bool) -> Self {
        Self {
            key: key.clone(),
            mode: holder.mode,
            fence: holder.fence,
            since: holder.since,
            ttl: holder.ttl,
            expires: holder.expires,
            already_held,
        }
    }
}
