//! `bell lock watch`: changes as they happen.
//!
//! Each line is the state of one key after a change. Changes that follow each other faster than they can
//! be read may be told as one.

use std::collections::BTreeMap;
use std::time::Duration;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_core::lock::Fence;

use super::show::{key_of, length, name};
use super::{fence_words, prefix};
use crate::answer::Refusal;
use crate::cli::PrefixArgs;
use crate::desk::Desk;
use crate::interrupt::Interrupts;

/// Nobody announces that a lease has run out or a process has died, so this looks now and then.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn watch(desk: &Desk, args: &PrefixArgs) -> Result<u8, Refusal> {
    let prefix = prefix(&args.prefix);
    let mut interrupts = Interrupts::listen()?;
    let mut known: BTreeMap<Key, LockAnswer> = BTreeMap::new();
    loop {
        let revision = desk.revision().await?;
        let locks = desk.list(&prefix).await?.locks;
        let now: BTreeMap<Key, LockAnswer> =
            locks.into_iter().filter_map(|lock| Some((lock.key.clone()?, lock))).collect();
        for lock in changes(&known, &now) {
            if desk.say.answer(&lock, || line(&lock)).is_err() {
                // Nobody reads any more.
                return Ok(exit::OK);
            }
        }
        known = now;
        tokio::select! {
            changed = desk.changed(&prefix, revision) => changed?,
            () = tokio::time::sleep(LOOK_EVERY) => {}
            stop = interrupts.next() => return Ok(stop.exit()),
        }
    }
}

/// The keys whose holders or queue differ, as they are now.
fn changes(before: &BTreeMap<Key, LockAnswer>, now: &BTreeMap<Key, LockAnswer>) -> Vec<LockAnswer> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let freed =
        gone.map(|key| LockAnswer { waiting: Some(0), ..LockAnswer::new(Outcome::Free, Some(key.clone())) });
    let differs =
        |(key, lock): &(&Key, &LockAnswer)| before.get(*key).is_none_or(|old| marks(old) != marks(lock));
    freed.chain(now.iter().filter(differs).map(|(_, lock)| lock.clone())).collect()
}

/// What makes two states different: times alone do not.
fn marks(lock: &LockAnswer) -> (Vec<Option<Fence>>, Option<u64>) {
    (lock.holders().map(|(_, fence)| fence).collect(), lock.waiting)
}

fn line(lock: &LockAnswer) -> String {
    let (key, waiting) = (key_of(lock), lock.waiting.unwrap_or_default());
    let Some(first) = &lock.holder else { return format!("free {key}, {waiting} waiting") };
    let who = lock.holders().map(|(holder, _)| holder.who().to_string()).collect::<Vec<_>>().join(", ");
    let (mode, left, fence) = (name(first.mode), length(first.left_ms), fence_words(lock.fence));
    format!("held {key}{fence} by {who}: {mode}, {left} left, {waiting} waiting")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_listed_no_more_has_become_free() {
        let key = Key::parse("deploy://x").unwrap();
        let held = LockAnswer::new(Outcome::Held, Some(key.clone()));
        let before = BTreeMap::from([(key.clone(), held)]);
        let told = changes(&before, &BTreeMap::new());
        assert_eq!(told.iter().map(|lock| lock.key.as_ref()).collect::<Vec<_>>(), [Some(&key)]);
        assert!(changes(&before, &before).is_empty());
    }
}
