//! `bell lock show`: who holds a key and who waits for it.

use std::time::Duration;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_core::key::Key;
use bell_core::lock::Mode;

use crate::answer::Refusal;
use crate::cli::KeyArgs;
use crate::desk::Desk;
use crate::span::words;

pub(super) async fn show(desk: &Desk, args: &KeyArgs) -> Result<u8, Refusal> {
    let answer = desk.show(&Key::parse(&args.key)?).await?;
    let _ = desk.say.answer(&answer, || lines(&answer));
    Ok(exit::OK)
}

/// The state of a key for people.
pub(super) fn lines(shown: &LockAnswer) -> String {
    let key = key_of(shown);
    if shown.holder.is_none() && shown.waiters.is_empty() {
        return format!("{key} is free");
    }
    let mut lines = vec![key];
    for (holder, fence) in shown.holders() {
        let fence = fence.map_or_else(String::new, |fence| format!(", fence {fence}"));
        let (held, left) = (length(holder.held_ms), length(holder.left_ms));
        lines.push(format!(
            "  held by {}: {}{fence}, for {held}, {left} left",
            holder.who(),
            name(holder.mode)
        ));
    }
    for waiter in &shown.waiters {
        let waited = length(waiter.waited_ms);
        lines.push(format!("  waiting: {}: {}, for {waited}", waiter.who(), name(waiter.mode)));
    }
    lines.join("\n")
}

/// The key that an answer is about.
pub(super) fn key_of(answer: &LockAnswer) -> String {
    answer.key.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Milliseconds for people.
pub(super) fn length(ms: u64) -> String {
    words(Duration::from_millis(ms))
}

/// A mode for people.
pub(super) fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}
