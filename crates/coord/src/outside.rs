//! Sessions of programs that never touch the store: whoever serves them acts for them here, on any node.
//!
//! Such a session is stored before it has asked for anything, and lives by heartbeats that may come through any process.
//! Nothing of it is kept in memory that the store does not have, so a process that serves it may die: the next one proves
//! the token and goes on.

use std::sync::Arc;
use std::time::Duration;

use bell_core::end::{Heard, heartbeat, prolong};
use bell_core::keep;
use bell_core::session::{self, Identity, RequestId, Revoked, SESSION_TTL};
use bell_core::view::{Missing, View};
use bell_store::info::Limits;
use bell_store::{Expect, Outcome, Stamp, Txn, Write};

use crate::Coord;
use crate::denied::Denied;
use crate::load::{Loaded, decode};
use crate::session::{Keep, Session, Token};
use crate::transact::encode;

impl Coord {
    /// Stores a new session that outlives its last heartbeat by `ttl`; without one nobody sends heartbeats, and its leases
    /// stand for themselves.
    ///
    /// Dropped half-way, there may be a session that nobody knows; it ends with its ttl.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn open_session(&self, who: Identity, ttl: Option<Duration>) -> Result<Session, Denied> {
        let owner = Session::new(who.clone(), if ttl.is_some() { Keep::Elsewhere } else { Keep::Detached })?;
        let now = self.time().await?;
        let expires = ttl.map(|ttl| now + ttl);
        let ttl_ms =
            ttl.filter(|ttl| *ttl != SESSION_TTL).and_then(|ttl| u64::try_from(ttl.as_millis()).ok());
        let record = session::Session { ttl_ms, ..session::Session::new(who, owner.proof(), expires) };
        let name = self.space().session(owner.id());
        let txn = Txn {
            at: None,
            expect: vec![(name.clone(), Expect::seen(0))],
            writes: vec![(name, Write::Put(encode(&record)?, Stamp::Keep))],
        };
        match self.store().commit(txn).await? {
            Outcome::Committed(committed) => {
                self.clock().told(committed.now);
                owner.saw(Arc::new(record), committed.revision);
                Ok(owner)
            }
            Outcome::Conflict(_) => Err(Denied::Invalid("the name of the session is taken".to_owned())),
        }
    }

    /// Acts for a session of a program elsewhere, once its token is proved. Answers also how long it lives from now on
    /// without a heartbeat; `None` if nobody sends any.
    ///
    /// # Errors
    /// As for [`Self::resume`]; [`Denied::Lost`] too if it has run out.
    pub async fn find_session(&self, token: &Token) -> Result<(Session, Option<Duration>), Denied> {
        let owner = self.resume(token).await?;
        let now = self.time().await?;
        let Some(record) = owner.record().filter(|record| record.is_live(now)) else { return Err(ended()) };
        owner.set_elsewhere();
        Ok((owner, record.expires.map(|expires| expires.since(now))))
    }

    /// A heartbeat of the session's owner: it lives for its ttl from now. Answers the leases that were broken since the
    /// last one.
    ///
    /// # Errors
    /// [`Denied::Lost`] if the session has ended.
    pub async fn heard_of(&self, owner: &Session) -> Result<Vec<Revoked>, Denied> {
        // What nobody keeps alive stays so: its leases stand for themselves.
        let ttl = owner.record().and_then(|record| record.expires.map(|_| record.ttl()));
        let mut guess = Loaded::guess();
        owner.assume(&mut guess);
        let done = self.transact(guess, |view| heartbeat(view, owner.id(), ttl)).await?;
        owner.learn(&done);
        match done.answer {
            Heard::Alive(revoked) => {
                // Taken out of the record with this: whoever renews a broken lease later still hears why it can't be.
                owner.revoke(&revoked);
                Ok(revoked)
            }
            Heard::Ended => {
                owner.mark_ended();
                Err(ended())
            }
        }
    }

    /// Keeps a session alive because its owner is there, for instance because its connection is open. What others wrote
    /// into its record stays for the owner.
    ///
    /// # Errors
    /// [`Denied::Lost`] if the session has ended.
    pub async fn prolong(&self, owner: &Session) -> Result<(), Denied> {
        let mut guess = Loaded::guess();
        owner.assume(&mut guess);
        let done = self.transact(guess, |view| prolong(view, owner.id())).await?;
        owner.learn(&done);
        if done.answer {
            return Ok(());
        }
        owner.mark_ended();
        Err(ended())
    }

    /// Returns when there is something for the session's owner to hear: a lease of its was broken, or it has ended. The
    /// next [`Self::heard_of`] tells.
    ///
    /// # Errors
    /// If the store can't be watched.
    pub async fn has_mail(&self, owner: &Session) -> Result<(), Denied> {
        loop {
            let Some(mailbox) = owner.mailbox(self) else { return Ok(()) };
            self.store().changed(&mailbox).await?;
            // Whatever this process writes shows here too.
            self.read_mail(owner).await?;
            let has_some = owner.record().is_none_or(|record| !record.revoked.is_empty());
            if has_some || owner.is_ended() {
                return Ok(());
            }
        }
    }

    /// Gives up a request of the session that waits, whoever waits for it: in this process, in one that died, or nobody.
    /// What it was granted in the meantime is given back.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn give_up(&self, owner: &Session, request: &RequestId) -> Result<(), Denied> {
        let name = self.space().session(owner.id());
        let snapshot = self.store().read(std::slice::from_ref(&name)).await?;
        let Some(record) = snapshot.records.get(&name) else { return Ok(()) };
        let record: session::Session = decode(&name, &record.value)?;
        if let Some(wait) = record.waits.into_iter().find(|wait| wait.request == *request) {
            let leave = |view: &View| keep::leave(view, owner.id(), request, &wait.keys);
            if self.transact(Loaded::default(), leave).await?.answer == keep::Left::Gone {
                return Ok(());
            }
        }
        // It waits no more: it may have been granted to nobody.
        let mut loaded = Loaded::default();
        let held = self.held_keys(owner.id(), Limits::CONTRACT.page).await?;
        self.load(&mut loaded, &Missing { locks: held.into_iter().collect(), ..Missing::default() }).await?;
        for (key, lock) in &loaded.view.locks {
            let lease = lock.get().and_then(|lock| lock.held_by(owner.id()));
            if let Some(lease) = lease.filter(|lease| lease.request == *request) {
                self.release_key(owner, key, lease.fence).await?;
            }
        }
        Ok(())
    }
}

fn ended() -> Denied {
    Denied::Lost("the session has ended".to_owned())
}
