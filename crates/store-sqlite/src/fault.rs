//! What SQLite's errors mean to the caller: a kind, words, and what to do next.

use std::error::Error as StdError;
use std::sync::Arc;

use bell_store::{Error, Kind};
use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

/// A failure of the engine, or of its files, for as many callers as waited for it.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    source: Arc<dyn StdError + Send + Sync>,
}

impl Fault {
    /// A failure beside the engine.
    pub(crate) fn new(kind: Kind, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { kind, source: Arc::new(source) }
    }

    /// The same failure where nobody can say whether the commit happened.
    pub(crate) fn unknown(self) -> Self {
        Self { kind: Kind::Unknown, ..self }
    }

    /// The error for one caller. `doing` reads after «could not».
    pub(crate) fn error(&self, doing: impl Into<String>) -> Error {
        Error::new(self.kind, doing).hint(hint(self.kind)).because(Arc::clone(&self.source))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(source: rusqlite::Error) -> Self {
        Self { kind: kind(&source), source: Arc::new(source) }
    }
}

fn kind(error: &rusqlite::Error) -> Kind {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        // A row or column that is not what this program writes.
        return Kind::Corrupt;
    };
    match failure.code {
        ErrorCode::DiskFull => Kind::Full,
        // The index beside the log could not grow, and the engine has no other word for it.
        ErrorCode::SystemIoFailure if failure.extended_code == SQLITE_IOERR_SHMSIZE => Kind::Full,
        ErrorCode::ReadOnly => Kind::ReadOnly,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Kind::Corrupt,
        // Also a file that may be read where the index beside it may not be created.
        ErrorCode::PermissionDenied | ErrorCode::CannotOpen => Kind::Unauthorized,
        ErrorCode::TooBig => Kind::Invalid,
        _ => Kind::Unavailable,
    }
}

fn hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Unavailable => {
            "Another process may keep the file locked, or its disk fails: try again, then look there."
        }
        Kind::Unknown => "Read the records again: it may have happened. Then check the disk.",
        Kind::Full => "Free some space on its disk; nothing was lost.",
        Kind::ReadOnly => "Make the file and its folder writable for this user, then start again.",
        Kind::Corrupt => {
            "Stop every process that uses it, keep a copy, and restore a backup or name another path."
        }
        Kind::Unauthorized => {
            "Run as the user who owns the file, or give this user access to it and its folder."
        }
        Kind::Invalid => "Store less in one record.",
        Kind::Rewound => {
            "Bring the newest copy back, or run bell store raise-epoch: fences then go on above all that were given."
        }
        Kind::Replaced => {
            "Stop every process that uses the store, put the right file in its place (after an older copy run bell store raise-epoch), then start them again."
        }
        Kind::TooNew | Kind::Unsupported => "",
    }
}
