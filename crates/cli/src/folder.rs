//! What the commands on a shared folder have in common: refusals, and reading the files that a caller names.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bell_api::outcome::Outcome;
use bell_locks::folder::{Error, Kind};
use rustix::fs::OFlags;

use crate::answer::Refusal;

/// Opens a file that becomes an item or a letter. Only a plain one: a folder reads as an error, and a pipe might never end.
pub(crate) fn open_plain(path: &Path) -> Result<File, Refusal> {
    let mut options = OpenOptions::new();
    // Not blocking: opening a pipe would wait for whoever writes to it.
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let opened = options.open(path).and_then(|file| Ok((file.metadata()?.is_file(), file)));
    match opened {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => Err(Refusal::invalid(
            format!("could not read {}: it is no plain file", path.display()),
            "Name files; what a pipe brings can be given on stdin.",
        )),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    let (outcome, hint) = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            (Outcome::Unauthorized, "Make the file readable for this user, or name another one.")
        }
        _ => (Outcome::NotFound, "Look at the path."),
    };
    Refusal::new(outcome, format!("could not read {}: {error}", path.display()), hint)
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let outcome = match error.kind() {
            Kind::Invalid | Kind::Exists | Kind::Unsupported | Kind::Corrupt => Outcome::Invalid,
            Kind::NotFound => Outcome::NotFound,
            Kind::Stale => Outcome::Stale,
            Kind::Busy => Outcome::Busy,
            Kind::Unauthorized => Outcome::Unauthorized,
            Kind::Full | Kind::Unknown | Kind::Unavailable => Outcome::Unavailable,
        };
        let hint = if error.advice().is_empty() { outcome.next() } else { error.advice() };
        let mut refusal = Self::new(outcome, format!("could not {error}"), hint);
        if let Some(fences) = error.fences() {
            refusal.0.fence = Some(fences.given);
            refusal.0.seen_fence = Some(fences.seen);
        }
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_worker_is_told_so_and_a_full_disk_may_be_better_later() {
        let of = |kind| Refusal::from(Error::new(kind, "x")).0.outcome;
        assert_eq!(of(Kind::Stale), Outcome::Stale);
        assert_eq!(of(Kind::Full), Outcome::Unavailable);
        assert_eq!(of(Kind::Corrupt), Outcome::Invalid);
    }
}
