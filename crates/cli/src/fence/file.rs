//! `bell fence write`, and `show` of a file.

use std::io::{self, Read};
use std::path::Path;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::lock::Fence;
use bell_locks::guard::file::{self, GuardError};

use crate::answer::Refusal;
use crate::cli::WriteArgs;
use crate::say::Say;

pub(super) fn write(say: &Say, args: &WriteArgs) -> Result<u8, Refusal> {
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

pub(super) fn show(say: &Say, path: &Path) -> Result<u8, Refusal> {
    let seen = file::highest(path).map_err(refused)?;
    Ok(super::tell_seen(say, &path.display().to_string(), None, seen))
}

fn refused(error: GuardError) -> Refusal {
    let message = error.to_string();
    match error {
        GuardError::Stale(stale) => super::stale(stale),
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
