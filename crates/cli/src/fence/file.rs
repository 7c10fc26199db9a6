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
        GuardError::TimedOut { ref sidecar, .. } => Refusal::new(
            Outcome::TimedOut,
            format!("{message}; nothing was written"),
            format!(
                "Look for a stopped process with fuser -v {}, and let it go on or end it; then write again with the same fence.",
                sidecar.display()
            ),
        ),
        GuardError::Io { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => Refusal::invalid(message, "Create the folder first."),
            io::ErrorKind::PermissionDenied => {
                Refusal::new(Outcome::Unauthorized, message, "Run as a user who may write there.")
            }
            io::ErrorKind::Unsupported => Refusal::invalid(
                message,
                "Write to a file system with locks; bell doctor fs tells which has them.",
            ),
            _ => Refusal::unavailable(message, "Look at the disk and the file beside it; then try again."),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_writer_that_does_not_end_is_a_wait_that_timed_out_and_can_be_found() {
        let sidecar = "/srv/.report.fence".into();
        let error =
            GuardError::TimedOut { path: "/srv/report".into(), sidecar, waited: Duration::from_secs(30) };
        let refusal = refused(error);
        assert_eq!((refusal.0.outcome, refusal.exit()), (Outcome::TimedOut, exit::TIMED_OUT));
        let message = refusal.0.message.unwrap_or_default();
        assert!(message.contains("locked for 30 s; nothing was written"), "{message}");
        assert!(refusal.0.hint.is_some_and(|hint| hint.contains("fuser -v /srv/.report.fence")));
    }
}
