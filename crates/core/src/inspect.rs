//! Looking without touching.

use crate::acquire::PublicHolder;
use crate::key::Key;
use crate::lock::Holder;
use crate::session::Identity;
use crate::view::{Decided, Draft, View};

/// A key as anybody may see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockState {
    /// The key.
    pub key: Key,
    /// Those who hold it now.
    pub holders: Vec<PublicHolder>,
    /// Those who wait, in order.
    pub waiting: Vec<PublicWaiter>,
}

/// What anybody may know about a waiter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicWaiter {
    /// The session.
    pub session: crate::session::SessionId,
    /// Who that is.
    pub who: Identity,
    /// Exclusive or shared.
    pub mode: crate::lock::Mode,
    /// For how long it has waited.
    pub waited: std::time::Duration,
}

/// The state of a key. What has run out is free, whether or not anybody has cleaned up.
///
/// # Errors
/// What it has not seen yet.
pub fn inspect(view: &View, key: &Key) -> Decided<LockState> {
    let draft = Draft::new(view);
    let queue = &draft.lock(key)?.queue;
    draft.need_sessions(queue.iter().map(|waiter| &waiter.session))?;
    let mut waiting = Vec::new();
    for waiter in queue {
        if let (true, Some(session)) = (draft.is_waiting(waiter)?, draft.session(&waiter.session)?) {
            waiting.push(PublicWaiter {
                session: waiter.session.clone(),
                who: session.who.clone(),
                mode: waiter.mode,
                waited: draft.now().since(waiter.since),
            });
        }
    }
    Ok(LockState { key: key.clone(), holders: draft.public_holders(key)?, waiting })
}

impl Draft<'_> {
    /// Those who hold a key now.
    pub(crate) fn public_holders(&self, key: &Key) -> Decided<Vec<PublicHolder>> {
        let holders = &self.lock(key)?.holders;
        self.need_sessions(holders.iter().filter(|h| self.now() < h.expires).map(|h| &h.session))?;
        // Whoever waits keeps this, and most keys have one holder.
        let mut public = Vec::with_capacity(holders.len());
        for holder in holders {
            if self.is_held(holder)? {
                public.push(self.public_holder(holder)?);
            }
        }
        Ok(public)
    }

    fn public_holder(&self, holder: &Holder) -> Decided<PublicHolder> {
        let who = self.session(&holder.session)?.map(|session| session.who.clone()).unwrap_or_default();
        Ok(PublicHolder {
            session: holder.session.clone(),
            who,
            mode: holder.mode,
            fence: holder.fence,
            held: self.now().since(holder.since),
            left: holder.expires.since(self.now()),
            ttl: holder.ttl,
        })
    }
}
