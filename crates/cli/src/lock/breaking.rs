//! `bell lock break`: takes a lock from whoever holds it.

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_coord::Denied;
use bell_core::inspect::LockState;
use bell_core::key::Key;

use super::{show, user};
use crate::answer::{self, Refusal};
use crate::cli::BreakArgs;
use crate::open::{Opened, Scene};

/// Bytes in a reason at the most: it is written into the record of every holder.
const REASON_BYTES_MAX: usize = 500;

pub(super) async fn break_lock(scene: &Scene, args: &BreakArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    if args.reason.trim().is_empty() || args.reason.len() > REASON_BYTES_MAX {
        return Err(Refusal::invalid(
            format!("could not use the reason: it must have 1 to {REASON_BYTES_MAX} bytes"),
            "Say in a few words why the lock is taken away: its holder will read it.",
        ));
    }
    let opened = scene.open().await?;
    let state = opened.coord.show(&key).await?;
    if state.holders.is_empty() {
        return Err(Refusal::about(&key)(Denied::NotHeld));
    }
    if args.yes { carry_out(scene, &opened, &key, args).await } else { rehearse(scene, &state) }
}

fn rehearse(scene: &Scene, state: &LockState) -> Result<u8, Refusal> {
    let told = format!("nothing was done: {} would be taken from its holder", state.key);
    let how = "Repeat the command with --yes to do it.".to_owned();
    let answer = LockAnswer { message: Some(told), hint: Some(how), ..answer::state(state) };
    let _ = scene.say.answer(&answer, || {
        format!("would break:\n{}\nnothing was done; repeat with --yes to do it", show::lines(state))
    });
    Ok(exit::OK)
}

async fn carry_out(scene: &Scene, opened: &Opened, key: &Key, args: &BreakArgs) -> Result<u8, Refusal> {
    let node = bell_locks::locks::this_process().node.unwrap_or_default();
    let by = format!("{} (uid {}) on {node}", user(), rustix::process::getuid().as_raw());
    let broken = opened.coord.break_lock(key, &args.reason, &by).await.map_err(Refusal::about(key))?;
    let state = LockState { key: key.clone(), holders: broken.holders, waiting: Vec::new() };
    let answer = LockAnswer {
        outcome: Outcome::Broken,
        waiting: None,
        hint: Some(Outcome::Broken.next().to_owned()),
        ..answer::state(&state)
    };
    let held_by: Vec<String> = state.holders.iter().map(|holder| holder.who.to_string()).collect();
    let _ = scene.say.answer(&answer, || format!("broke {key}: it was held by {}", held_by.join(", ")));
    Ok(exit::OK)
}
