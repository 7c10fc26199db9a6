//! `bell lock wait`: until nobody holds a key, without taking it.

use std::time::Duration;

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_store::clock::boottime;

use crate::answer::{self, Refusal};
use crate::cli::WaitArgs;
use crate::interrupt::Interrupts;
use crate::open::Scene;
use crate::progress::Progress;
use crate::span::{self, WITHOUT_LIMIT};

/// A release is announced; a process that dies is not, so this looks now and then.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn wait(scene: &Scene, args: &WaitArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let give_up = boottime() + span::wait(args.timeout.as_deref(), "--timeout", WITHOUT_LIMIT)?;
    let opened = scene.open().await?;
    let mut interrupts = Interrupts::listen()?;
    let mut progress = Progress::new(&scene.say);
    loop {
        // Before looking: a change in between must not be missed.
        let revision = opened.coord.revision().await?;
        let state = opened.coord.show(&key).await?;
        let left = give_up.saturating_sub(boottime());
        if state.holders.is_empty() {
            drop(progress);
            let _ = scene.say.answer(&answer::state(&state), || format!("{key} is free"));
            return Ok(exit::OK);
        }
        if left.is_zero() {
            return Err(timed_out(&state));
        }
        progress.show(&state, None);
        let runs_out = state.holders.iter().map(|holder| holder.left).max().unwrap_or_default();
        let nap = LOOK_EVERY.min(left).min(runs_out + Duration::from_millis(1));
        tokio::select! {
            changed = opened.coord.changed(key.as_str(), revision) => changed?,
            () = tokio::time::sleep(nap) => {}
            stop = interrupts.next() => return Ok(stop.exit()),
        }
    }
}

fn timed_out(state: &LockState) -> Refusal {
    let mut answer = answer::state(state);
    let holder = state.holders.first().map_or_else(String::new, |holder| holder.who.to_string());
    answer.outcome = Outcome::TimedOut;
    answer.message = Some(format!("waited for {} until the time was up; it is held by {holder}", state.key));
    answer.hint = Some("Wait longer with --timeout, or ask the holder.".to_owned());
    Refusal(Box::new(answer))
}
