//! Failures of the operating system, in words that say what to do next.

use std::io;

use bell_store::{Error, Kind};

/// A failed call, before which nothing had begun. `what` reads after «could not».
pub(crate) fn of_io(error: io::Error, what: &str) -> Error {
    let kind = Kind::of_io(&error);
    Error::new(kind, what).hint(advice(kind)).because(error)
}

/// A commit of which nobody can say whether it will be there after the next start.
pub(crate) fn in_doubt(error: io::Error, what: &str) -> Error {
    Error::new(Kind::Unknown, what)
        .hint("Read again to see whether it happened, and look at the disk and the kernel's log.")
        .because(error)
}

/// What is stored contradicts itself.
pub(crate) fn corrupt(what: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, what)
        .hint("Check the disk, then restore the whole folder from a backup, or start with an empty one.")
}

/// The same failure, for another who waits for the same thing.
pub(crate) fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string()).hint(error.advice())
}

fn advice(kind: Kind) -> &'static str {
    match kind {
        Kind::Unauthorized => "Give this user the right to read and write the folder (chown, chmod u+rwx).",
        Kind::ReadOnly => "Mount the file system for writing, or name a folder on another one.",
        Kind::Full => "Free some space or raise the quota; nothing was written.",
        Kind::Invalid => "Name a folder, or a path at which there is nothing yet.",
        _ => "Look at the disk, its mount and the kernel's log; then try again.",
    }
}
