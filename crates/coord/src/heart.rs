//! The life of a session: its first sign, its heartbeats, its end.
//!
//! An attended session beats every 5 s from the keeper's thread and ends with its last owner handle. It
//! reads its own record whenever somebody else writes to it, so a broken lock is known at once.

use std::sync::Arc;
use std::time::Duration;

use bell_core::end::{Heard, heartbeat};
use bell_core::session::SESSION_TTL;
use bell_store::Watch;
use bell_store::clock::boottime;

use crate::Coord;
use crate::denied::Denied;
use crate::keeper;
use crate::load::{Loaded, decode};
use crate::session::{Keep, Session, WeakSession};
use crate::tally;

/// Three beats fit into the time a session lasts without one.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// A failed beat is tried again this soon.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often a process clears the store of what dead sessions left.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const _: () = assert!(BEAT_EVERY.as_millis() * 3 <= SESSION_TTL.as_millis());

impl Coord {
    /// Ends a session and everything it held or waited for. May be repeated.
    ///
    /// Dropped half-way, the session has ended (its leases with it) or not; what was not cleared away is
    /// cleared by a later sweep.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn end(&self, owner: &Session) -> Result<(), Denied> {
        if owner.was_stored() {
            self.end_by_id(owner.id()).await?;
        }
        owner.mark_ended();
        self.store().presence().forget(owner.id().as_str());
        Ok(())
    }

    /// From now on each lease of the session stands for itself, and this process may go.
    ///
    /// # Errors
    /// [`Denied::Lost`] if the session has ended.
    pub async fn detach(&self, owner: &Session) -> Result<(), Denied> {
        owner.set_detached();
        self.beat(owner).await?;
        // First the file, then the lock on it: in between nobody can take the session for dead.
        self.store().presence().forget(owner.id().as_str());
        owner.stop_attending();
        Ok(())
    }

    /// Shows that an attended session is there, before its first request.
    pub(crate) fn be_present(&self, owner: &Session) -> Result<(), Denied> {
        if owner.start_attending(self)? {
            keeper::run(beat_while_alive(self.clone(), owner.downgrade()));
        }
        Ok(())
    }

    pub(crate) async fn beat(&self, owner: &Session) -> Result<(), Denied> {
        let ttl = match owner.keep() {
            Keep::Attended => Some(SESSION_TTL),
            Keep::Detached | Keep::Elsewhere => None,
        };
        let mut guess = Loaded::guess();
        owner.assume(&mut guess);
        let done = self.transact(guess, |view| heartbeat(view, owner.id(), ttl)).await?;
        owner.learn(&done);
        match done.answer {
            Heard::Alive(revoked) => {
                owner.trust_from(done.sent);
                owner.revoke(&revoked);
                Ok(())
            }
            Heard::Ended => {
                owner.mark_ended();
                Err(Denied::Lost("the session has ended".to_owned()))
            }
        }
    }

    /// Reads what others wrote into the session's record.
    pub(crate) async fn read_mail(&self, owner: &Session) -> Result<(), Denied> {
        let name = self.space().session(owner.id());
        let snapshot = self.store().read(std::slice::from_ref(&name)).await?;
        self.clock().told(snapshot.now);
        if let Some(record) = snapshot.records.get(&name) {
            owner.saw(Arc::new(decode(&name, &record.value)?), record.version);
        } else {
            owner.mark_ended();
        }
        Ok(())
    }
}

async fn beat_while_alive(coord: Coord, weak: WeakSession) {
    let mut next_beat = boottime() + BEAT_EVERY;
    loop {
        let Some(mailbox) = weak.upgrade().map(|owner| owner.mailbox(&coord)) else {
            if !weak.is_detached() {
                // The last handle is gone: nobody can use the session any more.
                let _ = coord.end_by_id(weak.id()).await;
                coord.store().presence().forget(weak.id().as_str());
            }
            return;
        };
        let until_beat = next_beat.saturating_sub(boottime());
        let wrote = tokio::select! {
            biased;
            () = tokio::time::sleep(until_beat) => false,
            () = weak.abandoned() => false,
            () = weak.stored(), if mailbox.is_none() => continue,
            changed = watch(&coord, &mailbox) => changed,
        };
        let Some(owner) = weak.upgrade() else { continue };
        if owner.is_ended() || owner.keep() == Keep::Detached {
            return;
        }
        let result = if wrote {
            coord.read_mail(&owner).await
        } else {
            next_beat = boottime() + BEAT_EVERY;
            if owner.was_stored() { coord.beat(&owner).await } else { Ok(()) }
        };
        if let Err(error) = result {
            tally::renew_failed();
            tracing::warn!(%error, session = %owner.id(), "heartbeat failed");
            tokio::time::sleep(RETRY_AFTER).await;
            next_beat = boottime();
        }
        drop(owner);
        if coord.sweep_is_due(SWEEP_EVERY) {
            let _ = coord.sweep().await.inspect_err(|error| tracing::debug!(%error, "sweep failed"));
        }
    }
}

/// Waits for mail; where there is no mailbox yet, or it can't be watched, for ever.
async fn watch(coord: &Coord, mailbox: &Option<Watch>) -> bool {
    match mailbox {
        Some(mailbox) if coord.store().changed(mailbox).await.is_ok() => true,
        _ => std::future::pending().await,
    }
}
