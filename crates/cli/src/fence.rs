//! `bell fence`: files that refuse whoever lost its lock.

use std::io::{self, Read};
use std::path::Path;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::lock::Fence;
use bell_locks::guard::file::{self, GuardError};

use crate::answer::Refusal;
use crate::cli::{FenceCommand, WriteArgs};
use crate::say::Say;

/// Carries out a command. Answers the exit code.
pub(crate) fn fence(say: &Say, command: &FenceCommand) -> Result<u8, Refusal> {
    match command {
        FenceCommand::Write(args) => write(say, args),
        FenceCommand::Show { path } => show(say, path),
    }
}

fn write(say: &Say, args: &WriteArgs) -> Result<u8, Refusal> {
    let mut content = Vec::new();
    // Whole before the first byte is written: a producer that fails half-way replaces nothing.
    io::stdin().lock().read_to_end(&mut content).map_err(|error| {
        Refusal::unavailable(format!("could not read stdin: {error}"), "Pipe the new content into it.")
    })?;
    let fence = Fence(args.fence);
    file::write(&args.path, fence, &content).map_err(refused)?;
    let answer = LockAnswer { fence: Some(fence), ..LockAnswer::new(Outcome::Written, None) };
    let _ = say.answer(&answer, || format!("wrote {} with fence {fence}", args.path.display()));
    Ok(exit::OK)
}

fn show(say: &Say, path: &Path) -> Result<u8, Refusal> {
    let seen = file::highest(path).map_err(refused)?;
    let outcome = if seen.is_some() { Outcome::Written } else { Outcome::Free };
    let answer = LockAnswer { seen_fence: seen, ..LockAnswer::new(outcome, None) };
    let _ = say.answer(&answer, || match seen {
        Some(fence) => format!("{} has seen fence {fence}", path.display()),
        None => format!("{} has seen no fence yet", path.display()),
    });
    Ok(exit::OK)
}

fn refused(error: GuardError) -> Refusal {
    let message = error.to_string();
    match error {
        GuardError::Stale(stale) => {
            let mut refusal = Refusal::new(Outcome::Stale, message, Outcome::Stale.next());
            refusal.0.fence = Some(stale.given);
            refusal.0.seen_fence = Some(stale.seen);
            refusal
        }
        GuardError::Path { .. } => Refusal::invalid(message, "Name the file that is to be written."),
        GuardError::Io { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => Refusal::invalid(message, "Create the folder first."),
            io::ErrorKind::PermissionDenied => {
                Refusal::new(Outcome::Unauthorized, message, "Run as a user who may write there.")
            }
            _ => Refusal::unavailable(message, "Look at the disk and the file beside it; then try again."),
        },
    }
}
