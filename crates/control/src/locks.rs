//! Locks as operators see them, and taking one from its holder.

use bell_api::control::acts::BreakRequest;
use bell_api::lock::{ListAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_coord::audit::act;
use bell_core::inspect::LockState;
use bell_core::key::Key;

use crate::answer;
use crate::control::Control;
use crate::refused::Refused;
use crate::who::Who;

/// Locks in one page of a list.
const PAGE: usize = 1_000;
/// Bytes in a reason at the most: it is written into the record of every holder.
const REASON_BYTES_MAX: usize = 500;

impl Control {
    /// The keys that start with `prefix` and are held or waited for, after `after`, a page of them.
    ///
    /// # Errors
    /// If `after` is no key, or the store can't be read.
    pub async fn list_locks(&self, prefix: &str, after: Option<&str>) -> Result<ListAnswer, Refused> {
        let mut after = after.map(Key::parse).transpose()?;
        loop {
            let page = self.locks.list(prefix, after.as_ref(), PAGE).await?;
            let locks: Vec<LockAnswer> = page.locks.iter().map(answer::state).collect();
            match page.next {
                // Nobody holds any of these; whoever goes on needs a key to go on from.
                Some(next) if locks.is_empty() => after = Some(next),
                next => return Ok(ListAnswer { outcome: Outcome::Listed, locks, more: next.is_some() }),
            }
        }
    }

    /// Who holds a key and who waits for it.
    ///
    /// # Errors
    /// If it is no key, or the store can't be read.
    pub async fn show_lock(&self, key: &str) -> Result<LockAnswer, Refused> {
        let key = Key::parse(key)?;
        Ok(answer::shown(&self.locks.show(&key).await.map_err(Refused::about(&key))?))
    }

    /// Takes a lock from whoever holds it. The answer says who did.
    ///
    /// # Errors
    /// If it is no key, nobody holds it, the reason is none, or the store can't be reached.
    pub async fn break_lock(&self, request: &BreakRequest, who: &Who) -> Result<LockAnswer, Refused> {
        let key = Key::parse(&request.key)?;
        let reason = break_reason(&request.reason)?;
        let by = who.words(request.by.as_deref()).unwrap_or_else(|| "somebody".to_owned());
        let locks = self.locks.acting(act(&who.recorded(request.by.as_deref()), "break", &key));
        let broken = locks.break_lock(&key, reason, &by).await.map_err(Refused::about(&key))?;
        Ok(broken_answer(key, broken.holders))
    }
}

/// The reason of a break, if it can be one.
///
/// # Errors
/// If it says nothing, or too much.
pub fn break_reason(given: &str) -> Result<&str, Refused> {
    if given.trim().is_empty() || given.len() > REASON_BYTES_MAX {
        return Err(Refused::invalid(
            format!("could not use the reason: it must have 1 to {REASON_BYTES_MAX} bytes"),
            "Say in a few words why the lock is taken away: its holder will read it.",
        ));
    }
    Ok(given)
}

/// That a lock was taken from these.
fn broken_answer(key: Key, holders: Vec<bell_core::acquire::PublicHolder>) -> LockAnswer {
    let state = LockState { key, holders, waiting: Vec::new() };
    LockAnswer {
        outcome: Outcome::Broken,
        waiting: None,
        hint: Some(Outcome::Broken.next().to_owned()),
        ..answer::state(&state)
    }
}
