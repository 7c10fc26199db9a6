//! Why a store could not do it: a kind for the program, words for the person, the cause kept.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// The result of asking a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a program can do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The engine can't be reached, is busy, or answers late. Nothing happened; trying again may help.
    Unavailable,
    /// No answer came: it may have happened. Only reading again tells.
    Unknown,
    /// The request breaks a limit or a rule of the store. Trying again won't help.
    Invalid,
    /// The engine refuses who we are.
    Unauthorized,
    /// The store can be read but not written.
    ReadOnly,
    /// No space is left.
    Full,
    /// What is stored can't be trusted.
    Corrupt,
    /// A newer Bellwether wrote it.
    TooNew,
    /// The engine, file system or address can't give what the contract needs.
    Unsupported,
    /// The store may have gone back: what it acknowledged may be lost. Commits are refused until an operator
    /// raises the epoch, so that no fence is handed out twice.
    Rewound,
    /// The files of the store were removed or replaced while they were open. Everything is refused until the process
    /// starts again: what it would commit now, nobody else would ever see.
    Replaced,
}

impl Kind {
    /// Whether the same request, sent again, may succeed without anybody's help.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unavailable)
    }

    /// What a failed call to the operating system comes to, if nothing was begun before it.
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Unauthorized,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
                Self::Invalid
            }
            _ => Self::Unavailable,
        }
    }
}

/// A failure: what kind, what could not be done, what to do next.
///
/// The message is a fragment that reads after «could not»; [`Error::hint`] is one sentence.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A failure of this kind. `message` reads after «could not».
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new(), source: None }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What a program can do about it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What to do next, empty if nothing is known to help.
    pub fn advice(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
