//! `bell fence`: writes that refuse whoever lost its lock.

mod file;
mod push;
mod serve;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::Stale;

use crate::answer::Refusal;
use crate::cli::{FenceCommand, ShowArgs};
use crate::fleet::Reach;
use crate::say::Say;

/// Carries out a command. Answers the exit code.
pub(crate) async fn fence(say: &Say, reach: &Reach, command: &FenceCommand) -> Result<u8, Refusal> {
    match command {
        FenceCommand::Write(args) => file::write(say, args),
        FenceCommand::Push(args) => push::push(say, args).await,
        FenceCommand::Show(args) => show(say, args).await,
        FenceCommand::Serve(args) => serve::serve(say, reach, args).await,
    }
}

async fn show(say: &Say, args: &ShowArgs) -> Result<u8, Refusal> {
    match args {
        ShowArgs { path: Some(path), .. } => file::show(say, path),
        ShowArgs { git: Some(remote), resource: Some(resource), .. } => {
            push::show(say, remote, resource).await
        }
        // The command line does not let it come to this.
        _ => Err(Refusal::invalid("could not tell what to show", "Name a file, or --git and --resource.")),
    }
}

/// Tells the highest fence that `place` has seen.
fn tell_seen(say: &Say, place: &str, key: Option<Key>, seen: Option<Fence>) -> u8 {
    let outcome = if seen.is_some() { Outcome::Written } else { Outcome::Free };
    let answer = LockAnswer { seen_fence: seen, ..LockAnswer::new(outcome, key) };
    let _ = say.answer(&answer, || match seen {
        Some(fence) => format!("{place} has seen fence {fence}"),
        None => format!("{place} has seen no fence yet"),
    });
    exit::OK
}

fn stale(stale: Stale) -> Refusal {
    let mut refusal = Refusal::new(Outcome::Stale, stale.to_string(), Outcome::Stale.next());
    refusal.0.fence = Some(stale.given);
    refusal.0.seen_fence = Some(stale.seen);
    refusal
}
