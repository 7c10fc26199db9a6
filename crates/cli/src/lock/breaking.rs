//! `bell lock break`: takes a lock from whoever holds it.

use bell_api::control::acts::BreakRequest;
use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_coord::Denied;
use bell_core::inspect::LockState;
use bell_core::key::Key;

use super::{show, user};
use crate::answer::{self, Refusal};
use crate::cli::BreakArgs;
use crate::desk::Desk;

/// Bytes in a reason at the most: it is written into the record of every holder.
const REASON_BYTES_MAX: usize = 500;

pub(super) async fn break_lock(desk: &Desk, args: &BreakArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    if args.reason.trim().is_empty() || args.reason.len() > REASON_BYTES_MAX {
        return Err(Refusal::invalid(
            format!("could not use the reason: it must have 1 to {REASON_BYTES_MAX} bytes"),
            "Say in a few words why the lock is taken away: its holder will read it.",
        ));
    }
    if key.is_reserved() {
        return Err(Refusal::invalid(
            format!(
                "could not break {key}: keys of bell: are Bellwether's own; they end with the daemon that holds them"
            ),
            "Stop the daemon with bell stop; a daemon that is gone loses its key by itself within 15 s.",
        ));
    }
    if desk.run().is_some() {
        // An agent is refused, whatever it wants to break.
        desk.store().await?;
    }
    let state = desk.show(&key).await?;
    if state.holder.is_none() {
        return Err(Refusal::about(&key)(Denied::NotHeld));
    }
    if !args.yes {
        return rehearse(desk, state);
    }
    let broken = carry_out(desk, &key, args).await?;
    let held_by: Vec<String> = broken.holders().map(|(holder, _)| holder.who().to_string()).collect();
    let _ = desk.say.answer(&broken, || format!("broke {key}: it was held by {}", held_by.join(", ")));
    Ok(exit::OK)
}

fn rehearse(desk: &Desk, state: LockAnswer) -> Result<u8, Refusal> {
    let would = show::lines(&state);
    let told = format!("nothing was done: {} would be taken from its holder", show::key_of(&state));
    let how = "Repeat the command with --yes to do it.".to_owned();
    let answer = LockAnswer { message: Some(told), hint: Some(how), waiters: Vec::new(), ..state };
    let _ = desk
        .say
        .answer(&answer, || format!("would break:\n{would}\nnothing was done; repeat with --yes to do it"));
    Ok(exit::OK)
}

async fn carry_out(desk: &Desk, key: &Key, args: &BreakArgs) -> Result<LockAnswer, Refusal> {
    let node = bell_locks::locks::this_process().node.unwrap_or_default();
    let by = format!("{} (uid {}) on {node}", user(), rustix::process::getuid().as_raw());
    if let Some(client) = desk.gateway() {
        let request = BreakRequest { key: key.to_string(), reason: args.reason.clone(), by: Some(by) };
        return Ok(client.break_lock(&request).await?);
    }
    let opened = desk.store().await?;
    let broken = opened.coord.break_lock(key, &args.reason, &by).await.map_err(Refusal::about(key))?;
    let state = LockState { key: key.clone(), holders: broken.holders, waiting: Vec::new() };
    Ok(LockAnswer {
        outcome: Outcome::Broken,
        waiting: None,
        hint: Some(Outcome::Broken.next().to_owned()),
        ..answer::state(&state)
    })
}
