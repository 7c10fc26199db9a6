//! `bell lock watch`: changes as they happen.
//!
//! Each line is the state of one key after a change. Changes that follow each other faster than they can
//! be read may be told as one.

use std::collections::BTreeMap;
use std::time::Duration;

use bell_api::exit;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_core::lock::Fence;

use super::prefix;
use super::show::name;
use crate::answer::{self, Refusal};
use crate::cli::PrefixArgs;
use crate::interrupt::Interrupts;
use crate::open::Scene;
use crate::span::words;

/// Nobody announces that a lease has run out or a process has died, so this looks now and then.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn watch(scene: &Scene, args: &PrefixArgs) -> Result<u8, Refusal> {
    let opened = scene.open().await?;
    let prefix = prefix(&args.prefix);
    let mut interrupts = Interrupts::listen()?;
    let mut known: BTreeMap<Key, LockState> = BTreeMap::new();
    loop {
        let revision = opened.coord.revision().await?;
        let locks = opened.backend.list(&prefix).await?;
        let now: BTreeMap<Key, LockState> =
            locks.into_iter().map(|state| (state.key.clone(), state)).collect();
        for state in changes(&known, &now) {
            if scene.say.answer(&answer::state(&state), || line(&state)).is_err() {
                // Nobody reads any more.
                return Ok(exit::OK);
            }
        }
        known = now;
        tokio::select! {
            changed = opened.coord.changed(&prefix, revision) => changed?,
            () = tokio::time::sleep(LOOK_EVERY) => {}
            stop = interrupts.next() => return Ok(stop.exit()),
        }
    }
}

/// The keys whose holders or queue differ, as they are now.
fn changes(before: &BTreeMap<Key, LockState>, now: &BTreeMap<Key, LockState>) -> Vec<LockState> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let freed = gone.map(|key| LockState { key: key.clone(), holders: Vec::new(), waiting: Vec::new() });
    let differs = |state: &&LockState| before.get(&state.key).is_none_or(|old| marks(old) != marks(state));
    freed.chain(now.values().filter(differs).cloned()).collect()
}

/// What makes two states different: times alone do not.
fn marks(state: &LockState) -> (Vec<Option<Fence>>, usize) {
    (state.holders.iter().map(|holder| holder.fence).collect(), state.waiting.len())
}

fn line(state: &LockState) -> String {
    let waiting = state.waiting.len();
    match state.holders.as_slice() {
        [] => format!("free {}, {waiting} waiting", state.key),
        holders => {
            let who = holders.iter().map(|holder| holder.who.to_string()).collect::<Vec<_>>().join(", ");
            let first = &holders[0];
            let fence = first.fence.map_or_else(String::new, |fence| format!(" fence {fence}"));
            let (mode, left) = (name(first.mode), words(first.left));
            format!("held {}{fence} by {who}: {mode}, {left} left, {waiting} waiting", state.key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(states: &[LockState]) -> BTreeMap<Key, LockState> {
        states.iter().map(|state| (state.key.clone(), state.clone())).collect()
    }

    #[test]
    fn a_key_that_is_listed_no_more_has_become_free() {
        let key = Key::parse("deploy://x").unwrap();
        let held = LockState { key: key.clone(), holders: Vec::new(), waiting: Vec::new() };
        let before = of(std::slice::from_ref(&held));
        let told = changes(&before, &BTreeMap::new());
        assert_eq!(told.iter().map(|state| &state.key).collect::<Vec<_>>(), [&key]);
        assert!(changes(&before, &before).is_empty());
    }
}
