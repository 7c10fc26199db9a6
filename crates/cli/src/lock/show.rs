//! `bell lock show`: who holds a key and who waits for it.

use bell_api::exit;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_core::lock::Mode;

use crate::answer::{self, Refusal};
use crate::cli::KeyArgs;
use crate::open::Scene;
use crate::span::words;

pub(super) async fn show(scene: &Scene, args: &KeyArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let opened = scene.open().await?;
    let state = opened.coord.show(&key).await.map_err(Refusal::about(&key))?;
    let _ = scene.say.answer(&answer::state(&state), || lines(&state));
    Ok(exit::OK)
}

/// The state of a key for people.
pub(super) fn lines(state: &LockState) -> String {
    if state.holders.is_empty() && state.waiting.is_empty() {
        return format!("{} is free", state.key);
    }
    let mut lines = vec![state.key.to_string()];
    for holder in &state.holders {
        let fence = holder.fence.map_or_else(String::new, |fence| format!(", fence {fence}"));
        let (held, left) = (words(holder.held), words(holder.left));
        lines.push(format!(
            "  held by {}: {}{fence}, for {held}, {left} left",
            holder.who,
            name(holder.mode)
        ));
    }
    for waiter in &state.waiting {
        lines.push(format!("  waiting: {}: {}, for {}", waiter.who, name(waiter.mode), words(waiter.waited)));
    }
    lines.join("\n")
}

/// A mode for people.
pub(super) fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}
