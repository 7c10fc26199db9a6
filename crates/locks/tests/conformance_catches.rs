//! The suite can fail: for each known way to get locks wrong, a backend that does, and the rule that
//! catches it.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bell_locks::conformance::{self, InProcess, Rule, Verdict};
use bell_locks::locks::StoreLocks;
use bell_locks::{
    Ask, Broken, Capabilities, Denied, Fence, Key, Lease, LockBackend, LockState, PublicHolder, Session, Ttl,
};
use bell_store::clock::boottime;
use bell_store::memory::Memory;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    TakesTwoSpellingsForTwoLocks,
    GrantsToTwo,
    ResetsFencesOnRelease,
    GrantsAnewWhatIsHeld,
    AnswersBusyAsGranted,
    ServesTheLastFirst,
    GrantsSomeOfSeveral,
    FindsNoDeadlock,
    ExpiresEarly,
    TellsALateDeadline,
    RenewsNothing,
    ReleasesForAnybody,
    FreesTheSuccessor,
    BringsBackWhatHasRunOut,
    ForgetsLeasesOfEndedSessions,
    BreaksNothing,
    FreesByLooking,
    DoesWhatItDoesNotClaim,
    GrantsRepeatedRequestsAnew,
    CallsBusyTimedOut,
}

/// A sound backend with one fault in front of it.
struct Flawed {
    inner: Arc<dyn LockBackend>,
    /// A second one, of which nobody should get anything.
    shadow: Arc<dyn LockBackend>,
    fault: Fault,
    memory: Mutex<HashMap<Key, Memories>>,
}

/// What a fault needs to know about a key.
#[derive(Default)]
struct Memories {
    /// The last grant, with whose it is.
    last: Option<(Session, Lease)>,
    /// Grants since the last release, and what they are inside.
    grants: Vec<Lease>,
    /// Those who wait, the last one last.
    waiting: Vec<u64>,
    tickets: u64,
}

impl Flawed {
    fn new(fault: Fault) -> Self {
        let memory = || Arc::new(StoreLocks::new(Arc::new(Memory::new())));
        Self { inner: memory(), shadow: memory(), fault, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, Memories>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one of two halves that a session talks to.
    fn half(&self, session: &Session) -> &Arc<dyn LockBackend> {
        let odd = session.id().as_str().bytes().fold(0, |sum, byte| sum ^ byte) % 2 == 1;
        if odd && self.fault == Fault::GrantsToTwo { &self.shadow } else { &self.inner }
    }

    /// The lease as the sound backend knows it.
    fn inside(&self, lease: &Lease) -> Lease {
        if self.fault != Fault::ResetsFencesOnRelease {
            return lease.clone();
        }
        let memory = self.memory();
        let place = usize::try_from(lease.fence.0).unwrap_or(0);
        memory.get(&lease.key).and_then(|of| of.grants.get(place.wrapping_sub(1))).unwrap_or(lease).clone()
    }

    fn note(&self, session: &Session, leases: &mut [Lease]) {
        for lease in leases {
            let mut memory = self.memory();
            let of_key = memory.entry(lease.key.clone()).or_default();
            of_key.last = Some((session.clone(), lease.clone()));
            if self.fault == Fault::ResetsFencesOnRelease {
                of_key.grants.push(lease.clone());
                lease.fence = Fence(of_key.grants.len() as u64);
            }
            if self.fault == Fault::TellsALateDeadline {
                lease.deadline += lease.ttl.length();
            }
        }
    }

    fn last(&self, key: &Key) -> Option<(Session, Lease)> {
        self.memory().get(key).and_then(|of| of.last.clone())
    }

    async fn take(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let sent = boottime();
        match self.fault {
            Fault::TakesTwoSpellingsForTwoLocks => {
                let respell = |key: &Key| Key::parse(&format!("{key}?{:p}", key.as_str())).unwrap();
                let ask = Ask { keys: ask.keys.iter().map(respell).collect(), ..ask.clone() };
                self.inner.acquire(session, &ask).await
            }
            Fault::ExpiresEarly => {
                let half = Ttl::new(ask.ttl.length() / 2).unwrap_or(Ttl::MIN);
                let leases = self.inner.acquire(session, &ask.clone().ttl(half)).await?;
                let told = |lease: Lease| Lease::new(lease.key, lease.mode, lease.fence, ask.ttl, sent);
                Ok(leases.into_iter().map(told).collect())
            }
            Fault::GrantsAnewWhatIsHeld | Fault::GrantsRepeatedRequestsAnew => {
                if let Some((owner, lease)) = ask.keys.first().and_then(|key| self.last(key))
                    && owner.id() == session.id()
                {
                    self.inner.release(session, &lease).await?;
                }
                self.inner.acquire(session, &ask.clone().request(bell_locks::new_request())).await
            }
            Fault::GrantsSomeOfSeveral => {
                let mut leases = Vec::new();
                for key in &ask.keys {
                    let one = Ask { keys: vec![key.clone()], ..ask.clone() };
                    leases.extend(self.inner.acquire(session, &one).await?);
                }
                Ok(leases)
            }
            Fault::ServesTheLastFirst if !ask.wait.is_zero() => self.push_in(session, ask).await,
            _ => self.half(session).acquire(session, ask).await,
        }
    }

    /// Waits like in a lift: the last one in is the first one out.
    async fn push_in(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        let key = &ask.keys[0];
        let ticket = {
            let mut memory = self.memory();
            let of_key = memory.entry(key.clone()).or_default();
            of_key.tickets += 1;
            let ticket = of_key.tickets;
            of_key.waiting.push(ticket);
            ticket
        };
        let give_up = boottime() + ask.wait;
        let answer = loop {
            let is_last = self.memory().get(key).and_then(|of| of.waiting.last().copied()) == Some(ticket);
            match self.inner.acquire(session, &ask.clone().wait(Duration::ZERO)).await {
                Ok(leases) if is_last => break Ok(leases),
                Ok(leases) => self.inner.release(session, &leases[0]).await?,
                Err(Denied::Busy(busy)) if boottime() >= give_up => break Err(Denied::TimedOut(busy)),
                Err(Denied::Busy(_)) => {}
                Err(other) => break Err(other),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        if let Some(of_key) = self.memory().get_mut(key) {
            of_key.waiting.retain(|other| *other != ticket);
        }
        answer
    }

    fn refusal(&self, ask: &Ask, denied: Denied) -> Result<Vec<Lease>, Denied> {
        match (self.fault, denied) {
            (Fault::AnswersBusyAsGranted, Denied::Busy(busy)) => {
                let fence = busy.holders[0].fence.unwrap_or(Fence(1));
                Ok(vec![Lease::new(busy.key, ask.mode, fence, ask.ttl, boottime())])
            }
            (Fault::CallsBusyTimedOut, Denied::Busy(busy)) => Err(Denied::TimedOut(busy)),
            (Fault::FindsNoDeadlock, Denied::Deadlock(cycle)) => {
                let (_, key) = cycle.steps()[0].clone();
                let busy = bell_locks::Busy { key, holders: Vec::new(), waiting: 0, queue_full: false };
                Err(Denied::TimedOut(Box::new(busy)))
            }
            (Fault::ServesTheLastFirst, Denied::Busy(mut busy)) => {
                busy.waiting = self.memory().get(&busy.key).map_or(0, |of| of.waiting.len());
                Err(Denied::Busy(busy))
            }
            (_, denied) => Err(denied),
        }
    }
}

#[async_trait]
impl LockBackend for Flawed {
    fn capabilities(&self) -> Capabilities {
        let claims = self.inner.capabilities();
        Capabilities { listing: self.fault != Fault::DoesWhatItDoesNotClaim, ..claims }
    }

    async fn acquire(&self, session: &Session, ask: &Ask) -> Result<Vec<Lease>, Denied> {
        match self.take(session, ask).await {
            Ok(mut leases) => {
                self.note(session, &mut leases);
                Ok(leases)
            }
            Err(denied) => self.refusal(ask, denied),
        }
    }

    async fn renew(&self, session: &Session, lease: &Lease) -> Result<Lease, Denied> {
        if self.fault == Fault::RenewsNothing {
            return Ok(Lease::new(lease.key.clone(), lease.mode, lease.fence, lease.ttl, boottime()));
        }
        match self.half(session).renew(session, &self.inside(lease)).await {
            Err(Denied::NotHeld) if self.fault == Fault::BringsBackWhatHasRunOut => {
                let ask = Ask::new(lease.key.clone()).ttl(lease.ttl);
                self.inner.acquire(session, &ask).await?;
                Ok(lease.clone())
            }
            answer => answer,
        }
    }

    async fn release(&self, session: &Session, lease: &Lease) -> Result<(), Denied> {
        let last = self.last(&lease.key);
        if let Some((owner, held)) = last {
            let is_other = held.fence != lease.fence || owner.id() != session.id();
            match self.fault {
                Fault::ReleasesForAnybody if held.fence == lease.fence => {
                    return self.inner.release(&owner, &held).await;
                }
                Fault::FreesTheSuccessor if is_other => return self.inner.release(&owner, &held).await,
                _ => {}
            }
        }
        self.half(session).release(session, &self.inside(lease)).await?;
        if self.fault == Fault::ResetsFencesOnRelease {
            self.memory().remove(&lease.key);
        }
        Ok(())
    }

    async fn is_held(&self, key: &Key) -> Result<Vec<PublicHolder>, Denied> {
        if self.fault == Fault::FreesByLooking
            && let Some((owner, lease)) = self.last(key)
        {
            self.inner.release(&owner, &lease).await?;
        }
        self.inner.is_held(key).await
    }

    fn scope(&self, path: &str) -> Result<Arc<dyn LockBackend>, Denied> {
        self.inner.scope(path)
    }

    async fn end_session(&self, session: &Session) -> Result<(), Denied> {
        match self.fault {
            Fault::ForgetsLeasesOfEndedSessions => Ok(()),
            _ => self.half(session).end_session(session).await,
        }
    }

    async fn show(&self, key: &Key) -> Result<LockState, Denied> {
        self.inner.show(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockState>, Denied> {
        self.inner.list(prefix).await
    }

    async fn break_lock(&self, key: &Key, reason: &str, by: &str) -> Result<Broken, Denied> {
        if self.fault == Fault::BreaksNothing {
            return Ok(Broken { holders: self.inner.is_held(key).await?, fence: Some(Fence(u64::MAX)) });
        }
        self.inner.break_lock(key, reason, by).await
    }

    async fn changed(&self, prefix: &str) -> Result<(), Denied> {
        self.inner.changed(prefix).await
    }
}

async fn verdict(fault: Fault, rule: u8) -> Verdict {
    let report = conformance::run_rule(Arc::new(InProcess::new(Flawed::new(fault))), Rule(rule)).await;
    println!("{fault:?}\n{report}");
    report.of(Rule(rule)).unwrap()
}

macro_rules! caught {
    ($($name:ident: $fault:ident by L $rule:literal;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            let (flawed, sound) = tokio::join!(verdict(Fault::$fault, $rule), verdict(Fault::Nothing, $rule));
            assert!(matches!(sound, Verdict::Passed(_)), "without the fault: {sound:?}");
            assert!(matches!(flawed, Verdict::Failed(_)), "not noticed: {flawed:?}");
        }
    )+};
}

caught! {
    two_spellings_that_are_two_locks_are_caught: TakesTwoSpellingsForTwoLocks by L 1;
    a_grant_to_two_is_caught: GrantsToTwo by L 2;
    fences_that_start_again_are_caught: ResetsFencesOnRelease by L 3;
    a_held_key_granted_anew_is_caught: GrantsAnewWhatIsHeld by L 4;
    busy_answered_as_granted_is_caught: AnswersBusyAsGranted by L 5;
    a_queue_in_the_wrong_order_is_caught: ServesTheLastFirst by L 6;
    a_partial_grant_is_caught: GrantsSomeOfSeveral by L 7;
    a_deadlock_that_nobody_finds_is_caught: FindsNoDeadlock by L 8;
    an_early_expiry_is_caught: ExpiresEarly by L 9;
    a_deadline_that_is_too_late_is_caught: TellsALateDeadline by L 11;
    a_renewal_that_renews_nothing_is_caught: RenewsNothing by L 12;
    a_release_by_anybody_is_caught: ReleasesForAnybody by L 14;
    a_late_release_that_frees_the_successor_is_caught: FreesTheSuccessor by L 15;
    a_renewal_that_brings_back_an_expired_lease_is_caught: BringsBackWhatHasRunOut by L 15;
    a_session_end_that_forgets_leases_is_caught: ForgetsLeasesOfEndedSessions by L 16;
    a_break_that_breaks_nothing_is_caught: BreaksNothing by L 17;
    a_look_that_frees_is_caught: FreesByLooking by L 18;
    a_claim_that_is_too_small_is_caught: DoesWhatItDoesNotClaim by L 22;
    a_repeated_request_granted_anew_is_caught: GrantsRepeatedRequestsAnew by L 23;
    a_refusal_by_the_wrong_name_is_caught: CallsBusyTimedOut by L 24;
}
