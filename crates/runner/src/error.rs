//! Why a run could not be started, reached or read: a kind for the program, words for the person.
//!
//! An error also travels: from the process that becomes the agent to the supervisor, and from there to the
//! daemon, so all of it is data and its cause is kept as text.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The result of asking the runner.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a program can do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The program, folder, user or preset is not there.
    NotFound,
    /// The operating system does not permit it.
    Denied,
    /// The request itself is wrong. Trying again won't help.
    Invalid,
    /// This machine can't do it.
    Unsupported,
    /// No space is left.
    Full,
    /// The run is over, or was never started, or nobody can tell which.
    Gone,
    /// Something else failed; trying again may help.
    Unavailable,
}

impl Kind {
    /// What a failed call to the operating system comes to.
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::InvalidInput
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::ArgumentListTooLong => Self::Invalid,
            io::ErrorKind::Unsupported => Self::Unsupported,
            // A program that is no program (ENOEXEC), and links that lead in a circle (ELOOP), have no word of their own.
            _ if matches!(Errno::from_io_error(error), Some(Errno::NOEXEC | Errno::LOOP)) => Self::Invalid,
            _ => Self::Unavailable,
        }
    }

    /// Whether the cause passes by itself or with the machine's repair: out of descriptors, memory or space, an
    /// input/output error, a store that does not answer. What remains is a cause in the agent or its settings.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Full | Self::Unavailable)
    }
}

/// A failure: what kind, what could not be done, what to do next.
///
/// The message is a fragment that reads after «could not»; the advice is one sentence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Error {
    kind: Kind,
    message: String,
    advice: String,
}

impl Error {
    /// A failure of this kind. `message` reads after «could not».
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), advice: String::new() }
    }

    /// A failed call to the operating system while doing `message`.
    pub fn io(message: impl fmt::Display, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let failed = Self::new(Kind::of_io(&error), format!("{message}: {error}"));
        match failed.kind {
            Kind::Full => failed.hint("Free some space on that file system, then try again."),
            _ => failed,
        }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Says that the cause lies in this machine, whatever the operating system calls it: a folder of Bellwether that is
    /// missing says nothing about the agent.
    #[must_use]
    pub(crate) fn of_machine(mut self) -> Self {
        if !self.kind.is_transient() {
            self.kind = Kind::Unavailable;
        }
        self
    }

    /// Says that it is not known whether the agent ran.
    #[must_use]
    pub(crate) fn unclear(mut self) -> Self {
        self.kind = Kind::Gone;
        self
    }

    /// What a program can do about it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What to do next, empty if nothing is known to help.
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {}
