//! `bell lock wait`: until nobody holds a key, without taking it.

use std::time::Duration;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_store::clock::boottime;

use super::show::key_of;
use crate::answer::Refusal;
use crate::cli::WaitArgs;
use crate::desk::Desk;
use crate::interrupt::Interrupts;
use crate::progress::Progress;
use crate::span::{self, WITHOUT_LIMIT};

/// A release is announced; a process that dies is not, so this looks now and then.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn wait(desk: &Desk, args: &WaitArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let give_up = boottime() + span::wait(args.timeout.as_deref(), "--timeout", WITHOUT_LIMIT)?;
    let mut interrupts = Interrupts::listen()?;
    let mut progress = Progress::new(&desk.say);
    loop {
        // Before looking: a change in between must not be missed.
        let revision = desk.revision().await?;
        let shown = desk.show(&key).await?;
        let left = give_up.saturating_sub(boottime());
        if shown.holder.is_none() {
            drop(progress);
            let _ = desk.say.answer(&shown, || format!("{key} is free"));
            return Ok(exit::OK);
        }
        if left.is_zero() {
            return Err(timed_out(shown));
        }
        progress.show(&shown, None);
        let runs_out = shown.holders().map(|(holder, _)| holder.left_ms).max().unwrap_or_default();
        let nap = LOOK_EVERY.min(left).min(Duration::from_millis(runs_out + 1));
        tokio::select! {
            changed = desk.changed(key.as_str(), revision) => changed?,
            () = tokio::time::sleep(nap) => {}
            stop = interrupts.next() => return Ok(stop.exit()),
        }
    }
}

fn timed_out(shown: LockAnswer) -> Refusal {
    let holder = shown.holder.as_ref().map_or_else(String::new, |holder| holder.who().to_string());
    let message = format!("waited for {} until the time was up; it is held by {holder}", key_of(&shown));
    Refusal(Box::new(LockAnswer {
        outcome: Outcome::TimedOut,
        message: Some(message),
        hint: Some("Wait longer with --timeout, or ask the holder.".to_owned()),
        ..shown
    }))
}
