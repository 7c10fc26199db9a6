//! Taking, keeping and giving back locks.

use std::sync::Arc;
use std::time::Duration;

use bell_core::acquire::{
    self, Acquire, Acquired, Call, Lease as Granted, MAX_KEYS, PublicHolder, canonical_order,
};
use bell_core::end;
use bell_core::keep::{self, Kept, Left};
use bell_core::key::Key;
use bell_core::lock::{Fence, Lock, Mode, Ttl};
use bell_core::session::RequestId;
use bell_core::time::Version;
use bell_core::view::{Changes, View};
use bell_store::clock::boottime;

use crate::Coord;
use crate::denied::Denied;
use crate::keeper::Pending;
use crate::load::Loaded;
use crate::session::{Session, new_request};
use crate::tally;
use crate::transact::Done;
use crate::turns::Turn;
use crate::waiting;

/// What a session asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// All of them or none.
    pub keys: Vec<Key>,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How long the lease lasts without renewal.
    pub ttl: Ttl,
    /// How long to queue; zero: answer at once.
    pub wait: Duration,
    /// Repeated with the same id, a request has the one outcome.
    pub request: RequestId,
    /// The call that the session is for: its callers wait for it, and what they hold it never gets.
    pub call: Option<Arc<Call>>,
}

impl Ask {
    /// Asks for one key exclusively, for the default ttl, without waiting.
    pub fn new(key: Key) -> Self {
        Self::all(vec![key])
    }

    /// Asks for several keys, all or nothing.
    pub fn all(keys: Vec<Key>) -> Self {
        let keys = canonical_order(keys);
        let request = new_request();
        Self { keys, mode: Mode::Exclusive, ttl: Ttl::DEFAULT, wait: Duration::ZERO, request, call: None }
    }

    /// Waits up to this long in the queue.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The lease lasts this long without renewal.
    #[must_use]
    pub fn ttl(self, ttl: Ttl) -> Self {
        Self { ttl, ..self }
    }

    /// Together with others who ask for it shared.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { mode: Mode::Shared, ..self }
    }

    /// Is refused as a deadlock if it would have to wait for those who wait for this call.
    #[must_use]
    pub fn called(self, call: Option<Call>) -> Self {
        Self { call: call.map(Arc::new), ..self }
    }

    /// Repeats the request of this id, or gives it one.
    #[must_use]
    pub fn request(self, request: RequestId) -> Self {
        Self { request, ..self }
    }
}

/// A lease, as its holder has it.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The key.
    pub key: Key,
    /// Exclusive or shared.
    pub mode: Mode,
    /// What to send with every guarded write.
    pub fence: Fence,
    /// How long each renewal makes it last.
    pub ttl: Ttl,
    /// For how long it had been held when this was answered.
    pub held: Duration,
    /// It was held before this request.
    pub already_held: bool,
    /// On this machine's boot clock: when the holder must stop relying on it.
    pub deadline: Duration,
    /// The record as last known, so that renewal and release need no read.
    known: Option<(Arc<Lock>, Version)>,
}

impl Lease {
    /// A lease granted by a request that left at `sent` (on the boot clock): for backends of other makes.
    pub fn new(key: Key, mode: Mode, fence: Fence, ttl: Ttl, sent: Duration) -> Self {
        let deadline = sent + ttl.length().saturating_sub(ttl.margin());
        Self { key, mode, fence, ttl, held: Duration::ZERO, already_held: false, deadline, known: None }
    }

    /// Whether nobody else held the key or waited for it when this was answered.
    pub fn is_alone(&self) -> bool {
        self.known.as_ref().is_some_and(|(lock, _)| lock.holders.len() == 1 && lock.queue.is_empty())
    }

    /// How long it lasts from now on at the least, as its holder may count on.
    pub fn trusted_for(&self) -> Duration {
        self.deadline.saturating_sub(boottime())
    }
}

/// What an operator's break did, or would do.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Those who held the key.
    pub holders: Vec<PublicHolder>,
    /// Every later grant of the key has a fence above this. `None`: nothing was done.
    pub fence: Option<Fence>,
}

/// What comes of asking once.
pub(crate) enum Asked {
    Granted(Vec<Lease>),
    /// It is in the queue.
    Queued,
    /// What stood in the way has changed.
    Again,
}

impl Coord {
    /// Takes locks for a session, waiting in the queue if asked to.
    ///
    /// Dropped half-way, it gives back what it may have got and leaves the queue, in the background; the
    /// request id is used up then. After [`Denied::Unavailable`] the same id may be repeated.
    ///
    /// # Errors
    /// [`Denied`], which says why.
    pub async fn acquire(&self, owner: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let granted = self.acquire_until(owner, ask, std::future::pending()).await?;
        // Nothing stops it, so there is an answer.
        Ok(granted.unwrap_or_default())
    }

    /// The same until `stop` is done: then `None`, and the request keeps its place, or what it got, for whoever repeats
    /// it elsewhere. For a process that hands its work over to the next one.
    ///
    /// # Errors
    /// As for [`Self::acquire`].
    pub async fn acquire_until(
        &self,
        owner: &Session,
        ask: &Ask,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Vec<Lease>>, Denied> {
        let began = boottime();
        let outcome = self.acquire_from(owner, ask, began, stop).await;
        if !matches!(outcome, Ok(None)) {
            tally::waited(boottime().saturating_sub(began), &outcome);
        }
        outcome
    }

    async fn acquire_from(
        &self,
        owner: &Session,
        ask: &Ask,
        began: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Vec<Lease>>, Denied> {
        let mut pending = Pending::new(self, owner, self.command(owner, ask).await?);
        let outcome = tokio::select! {
            biased;
            outcome = self.acquire_or_queue(owner, &mut pending.command, began + ask.wait) => outcome.map(Some),
            () = stop => Ok(None),
        };
        pending.answered();
        outcome
    }

    async fn command(&self, owner: &Session, ask: &Ask) -> Result<Acquire, Denied> {
        if ask.keys.is_empty() || ask.keys.len() > MAX_KEYS {
            return Err(Denied::Invalid(format!(
                "a request takes 1 to {MAX_KEYS} keys, not {}: split them, or lock one key that stands for all",
                ask.keys.len()
            )));
        }
        self.be_present(owner)?;
        Ok(Acquire {
            session: owner.id().clone(),
            request: ask.request.clone(),
            keys: canonical_order(ask.keys.clone()),
            mode: ask.mode,
            ttl: ask.ttl,
            wait: waiting::slice(owner.keep(), ask.wait),
            new_session: owner.unborn(self).await?,
            call: ask.call.clone(),
        })
    }

    async fn acquire_or_queue(
        &self,
        owner: &Session,
        command: &mut Acquire,
        give_up: Duration,
    ) -> Result<Vec<Lease>, Denied> {
        loop {
            // In a box, as whatever else it takes to decide: whoever waits afterwards is not to keep room for it.
            match Box::pin(self.ask_once(owner, command)).await? {
                Asked::Granted(leases) => return Ok(leases),
                Asked::Queued => {
                    // Its session has been stored. If it ends now, nothing may bring it back.
                    command.new_session = None;
                    if let Some(leases) = self.wait_for_turn(owner, command, give_up).await? {
                        return Ok(leases);
                    }
                }
                Asked::Again => {}
            }
        }
    }

    /// Decides a request on the guess that its keys are free.
    async fn ask_once(&self, owner: &Session, command: &Acquire) -> Result<Asked, Denied> {
        let mut guess = Loaded::guess();
        owner.assume(&mut guess);
        for key in &command.keys {
            guess.assume_lock(key, None);
        }
        // Who does not want to wait joins no queue.
        let turn = if command.wait.is_zero() { Turn::AtOnce } else { Turn::ToCome };
        let done = self.transact_with(turn, guess, |view| acquire::acquire(view, command)).await?;
        owner.learn(&done);
        match done.answer {
            Acquired::Granted(ref leases) => Ok(Asked::Granted(self.grants(&done, leases))),
            Acquired::Busy(busy) => Err(Denied::Busy(Box::new(busy))),
            Acquired::Queued(_) => {
                // What is needed of it now is read again.
                drop(done.loaded);
                if done.partial {
                    self.leave_if_refused(owner, command).await?;
                }
                Ok(Asked::Queued)
            }
            Acquired::Deadlock(_) => self.confirm_deadlock(command, done.loaded).await,
            Acquired::SessionEnded => {
                owner.mark_ended();
                Err(Denied::Lost("the session has ended".to_owned()))
            }
            Acquired::Again => Ok(Asked::Again),
            Acquired::Upgrade(key) => Err(Denied::Invalid(format!(
                "{key} is held shared by this session: release it before taking it exclusively"
            ))),
        }
    }

    /// Extends a lease from now.
    ///
    /// # Errors
    /// [`Denied::NotHolder`] or [`Denied::NotHeld`] if the lease is over: that is final.
    pub async fn renew(&self, owner: &Session, grant: &Lease) -> Result<Lease, Denied> {
        // By the lease's ttl, not by this handle's: another request of the session may rely on a longer one.
        self.renew_known(owner, &grant.key, Some(grant.fence), None, grant.known.clone()).await
    }

    /// Extends whatever lease the session has on a key, optionally with another ttl.
    ///
    /// # Errors
    /// As for [`Self::renew`]; [`Denied::Lost`] with the operator's reason if the lease was broken.
    pub async fn renew_key(
        &self,
        owner: &Session,
        key: &Key,
        fence: Option<Fence>,
        ttl: Option<Ttl>,
    ) -> Result<Lease, Denied> {
        let renewed = self.renew_known(owner, key, fence, ttl, None).await;
        let Err(Denied::NotHolder(_) | Denied::NotHeld) = &renewed else { return renewed };
        let broken = self.why_broken(owner, key, fence).await;
        // Who names a fence has had the lease.
        if fence.is_some() || broken.is_some() {
            tally::lost();
        }
        match broken {
            Some(reason) => Err(Denied::Lost(format!("an operator broke the lock: {reason}"))),
            None => renewed,
        }
    }

    /// The reason why an operator broke a lease of the session, if one did: the one with this fence, or the last on the key.
    async fn why_broken(&self, owner: &Session, key: &Key, fence: Option<Fence>) -> Option<String> {
        // A session that was never stored has no mail. One whose mail can't be read is told what is known.
        if owner.was_stored() {
            let _ = self.read_mail(owner).await;
        }
        owner.why_broken(key, fence)
    }

    async fn renew_known(
        &self,
        owner: &Session,
        key: &Key,
        fence: Option<Fence>,
        ttl: Option<Ttl>,
        known: Option<(Arc<Lock>, Version)>,
    ) -> Result<Lease, Denied> {
        let view = self.view_of(owner, key, known);
        let done = self.transact(view, |view| keep::renew(view, owner.id(), key, fence, ttl)).await?;
        owner.learn(&done);
        match &done.answer {
            Kept::Renewed(lease) => {
                let lease = lease.clone();
                Ok(self.grant(&done, &lease))
            }
            Kept::NotHolder(holders) => Err(Denied::NotHolder(holders.clone())),
            Kept::NotHeld | Kept::Released => Err(Denied::NotHeld),
        }
    }

    /// Ends a lease and grants the key to whoever is next. May be repeated.
    ///
    /// # Errors
    /// [`Denied::NotHolder`] if somebody else holds the key by now; nothing of theirs is touched.
    pub async fn release(&self, owner: &Session, grant: &Lease) -> Result<(), Denied> {
        self.release_known(owner, &grant.key, Some(grant.fence), grant.known.clone()).await
    }

    /// Ends whatever lease the session has on a key.
    ///
    /// # Errors
    /// As for [`Self::release`]; [`Denied::NotHeld`] if there is none and no fence was given.
    pub async fn release_key(&self, owner: &Session, key: &Key, fence: Option<Fence>) -> Result<(), Denied> {
        self.release_known(owner, key, fence, None).await
    }

    /// The same for a caller that remembers a lease on the key: as long as that is how the key stands, nothing is read.
    /// Whatever else has become of it is found out, so what is remembered need not be true.
    ///
    /// # Errors
    /// As for [`Self::release_key`].
    pub async fn release_remembered(
        &self,
        owner: &Session,
        fence: Option<Fence>,
        remembered: Lease,
    ) -> Result<(), Denied> {
        self.release_known(owner, &remembered.key, fence, remembered.known).await
    }

    async fn release_known(
        &self,
        owner: &Session,
        key: &Key,
        fence: Option<Fence>,
        known: Option<(Arc<Lock>, Version)>,
    ) -> Result<(), Denied> {
        let mut view = known.as_ref().map_or_else(Loaded::default, |_| Loaded::guess());
        if known.is_some() {
            view.assume_lock(key, known);
        }
        let done = self.transact(view, |view| keep::release(view, owner.id(), key, fence)).await?;
        match done.answer {
            Kept::Released | Kept::Renewed(_) => Ok(()),
            // It was released, only nobody said so, and has gone on to whoever was next.
            Kept::NotHolder(_) | Kept::NotHeld if done.in_doubt => Ok(()),
            Kept::NotHolder(holders) => Err(Denied::NotHolder(holders)),
            Kept::NotHeld => Err(Denied::NotHeld),
        }
    }

    /// Takes a request out of the queues; what it got in the meantime comes back.
    pub(crate) async fn leave(
        &self,
        owner: &Session,
        request: &RequestId,
        keys: &[Key],
    ) -> Result<Option<Vec<Lease>>, Denied> {
        let decide = |view: &View| keep::leave(view, owner.id(), request, keys);
        let done = self.transact(Loaded::default(), decide).await?;
        owner.learn(&done);
        Ok(match &done.answer {
            Left::Granted(leases) => Some(self.grants(&done, leases)),
            Left::Gone => None,
        })
    }

    /// Breaks a lock: whoever holds it is told and whoever is next gets it. Leaves an audit entry.
    ///
    /// # Errors
    /// [`Denied::Invalid`] if the key is reserved: a daemon whose key is broken is reported as gone although it works.
    /// [`Denied::NotHeld`] if nobody holds it, or its holder has just let go of it.
    pub async fn break_lock(&self, key: &Key, reason: &str, by: &str) -> Result<Broken, Denied> {
        if key.is_reserved() {
            return Err(Denied::Invalid(format!(
                "could not break {key}: keys of bell: are Bellwether's own; they end with the daemon that holds them"
            )));
        }
        let holders = self.show(key).await?.holders;
        if holders.is_empty() {
            return Err(Denied::NotHeld);
        }
        let mut act = self.breaking(by, key.as_str()).because(reason);
        act.touches = holders.iter().map(|holder| holder.session.to_string()).collect();
        let id = act.id.clone();
        // Only what was shown is broken: decided again because its answer was lost, a break must not take
        // the key from whoever got it by that very break.
        let is_meant = |found: &PublicHolder| holders.iter().any(|shown| shown.fence == found.fence);
        let decide = |view: &View| {
            let (found, changes) = end::break_lock(view, key, reason, by)?;
            let is_there = found.iter().any(is_meant);
            Ok((is_there, if is_there { changes } else { Changes::default() }))
        };
        let done = self.acting(act).transact(Loaded::default(), decide).await?;
        let revision = match done.committed {
            Some(committed) => committed.revision,
            // The record of the act tells whether the commit that got no answer has happened, and when.
            None if done.in_doubt => self.find_act(&id).await?.map_or(0, |(_, revision)| revision),
            None => 0,
        };
        if revision == 0 {
            return Err(Denied::NotHeld);
        }
        tally::broken();
        tracing::warn!(%key, by, reason, "lock broken by an operator");
        let fence = Some(Fence(revision));
        Ok(Broken { holders, fence })
    }

    fn view_of(&self, owner: &Session, key: &Key, known: Option<(Arc<Lock>, Version)>) -> Loaded {
        if known.is_none() {
            return Loaded::default();
        }
        let mut guess = Loaded::guess();
        owner.assume(&mut guess);
        guess.assume_lock(key, known);
        guess
    }

    pub(crate) fn grants<A>(&self, done: &Done<A>, leases: &[Granted]) -> Vec<Lease> {
        leases.iter().map(|lease| self.grant(done, lease)).collect()
    }

    fn grant<A>(&self, done: &Done<A>, lease: &Granted) -> Lease {
        let seen = done.loaded.view.locks.get(&lease.key);
        let revision = done.committed.map_or(0, |committed| committed.revision);
        let left = lease.expires.since(done.loaded.view.now);
        // From before the request left, and never longer than the ttl: the store counts at least as long.
        let deadline = done.sent + left.min(lease.ttl.length()).saturating_sub(lease.ttl.margin());
        Lease {
            key: lease.key.clone(),
            mode: lease.mode,
            fence: lease.fence.unwrap_or(Fence(revision)),
            ttl: lease.ttl,
            held: done.loaded.view.now.since(lease.since),
            already_held: lease.already_held,
            deadline,
            known: seen.and_then(|seen| Some((seen.record.clone()?, seen.version))),
        }
    }
}
