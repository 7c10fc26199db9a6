//! Why something could not be done in a folder: a kind for the program, words for the person, the cause kept.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use bell_core::lock::Fence;
use rustix::io::Errno;

/// The result of asking a folder.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a program can do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The request breaks a rule. Trying again won't help.
    Invalid,
    /// What was asked for is not there.
    NotFound,
    /// Something of that name is there already.
    Exists,
    /// The caller's claim or fence is old: somebody else has taken over. This is final.
    Stale,
    /// Somebody else is at it just now.
    Busy,
    /// This user may not do it.
    Unauthorized,
    /// No space is left.
    Full,
    /// The file system can't give what is needed.
    Unsupported,
    /// What is in the folder can't be trusted.
    Corrupt,
    /// No clear answer came: it may have happened. Only looking again tells.
    Unknown,
    /// The file system does not do it now; trying again may help.
    Unavailable,
}

/// A failure: what kind, what could not be done, what to do next.
///
/// The message is a fragment that reads after «could not»; [`Error::advice`] is one sentence.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: String,
    source: Option<io::Error>,
    fences: Option<Fences>,
}

/// The two fences of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fences {
    /// What came with the request.
    pub given: Fence,
    /// The highest that was seen before.
    pub seen: Fence,
}

impl Error {
    /// A failure of this kind. `message` reads after «could not».
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new(), source: None, fences: None }
    }

    /// A failed call to the operating system about `path`.
    pub(crate) fn io(what: &str, path: &Path, error: io::Error) -> Self {
        let kind = of_io(&error);
        Self { source: Some(error), ..Self::new(kind, format!("{what} {}", path.display())) }
            .hint(default_hint(kind))
    }

    /// A refusal of `what` because a later fence has been seen.
    pub(crate) fn stale(what: &str, fences: Fences) -> Self {
        let Fences { given, seen } = fences;
        let message = format!("{what}: its fence is {given}, and {seen} has been seen");
        let hint = "Stop the work at once: its lease is over and a newer holder has written, or the store was set back to an older copy (bell store raise-epoch).";
        Self { fences: Some(fences), ..Self::new(Kind::Stale, message).hint(hint) }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn because(mut self, source: io::Error) -> Self {
        self.source = Some(source);
        self
    }

    /// What a program can do about it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The fences of a refusal, where it was about fences.
    pub fn fences(&self) -> Option<Fences> {
        self.fences
    }

    /// What to do next, empty if nothing is known to help.
    pub fn advice(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// The number of a failed call.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

/// Whether the file system does not know how to do what was asked, rather than refusing it.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOTTY))
}

/// Whether a name is not there, or the folder that it was in: over NFS that is a stale handle.
pub(crate) fn is_not_there(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || errno(error) == Some(Errno::STALE)
}

/// Whether the call may have happened although it reports a failure: a reply that got lost.
pub(crate) fn is_in_doubt(error: &io::Error) -> bool {
    matches!(
        errno(error),
        Some(
            Errno::IO | Errno::TIMEDOUT | Errno::STALE | Errno::NOTCONN | Errno::CONNRESET | Errno::HOSTDOWN
        )
    )
}

fn of_io(error: &io::Error) -> Kind {
    match errno(error) {
        Some(Errno::XDEV) => return Kind::Unsupported,
        Some(Errno::LOOP) => return Kind::Corrupt,
        Some(Errno::NAMETOOLONG) => return Kind::Invalid,
        _ if is_in_doubt(error) => return Kind::Unknown,
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound => Kind::NotFound,
        io::ErrorKind::AlreadyExists => Kind::Exists,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::Unauthorized,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Full,
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => Kind::Corrupt,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => Kind::Invalid,
        io::ErrorKind::Unsupported => Kind::Unsupported,
        _ => Kind::Unavailable,
    }
}

fn default_hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Full => "Free some space on that file system and try again.",
        Kind::Unauthorized => "Make the folder writable for this user, or name another one.",
        Kind::Corrupt => {
            "A link or a file stands where a plain folder or file should: find out who put it there."
        }
        Kind::Unsupported => "Keep everything on one file system; look at it with bell doctor fs.",
        Kind::Unknown => "Look whether it happened before trying again.",
        Kind::NotFound => "Look at the name.",
        Kind::Exists => "Choose another name.",
        Kind::Invalid => "Correct the request as the message says.",
        Kind::Stale | Kind::Busy | Kind::Unavailable => "Try again shortly.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_reply_is_unknown_and_never_failed() {
        let error = Error::io("move", Path::new("/x"), Errno::IO.into());
        assert_eq!(error.kind(), Kind::Unknown);
        assert!(error.advice().contains("whether it happened"));
    }

    #[test]
    fn what_a_person_can_change_has_a_kind_of_its_own() {
        let kind = |errno: Errno| Error::io("x", Path::new("/x"), errno.into()).kind();
        assert_eq!(kind(Errno::NOSPC), Kind::Full);
        assert_eq!(kind(Errno::ACCESS), Kind::Unauthorized);
        assert_eq!(kind(Errno::ROFS), Kind::Unauthorized);
        assert_eq!(kind(Errno::XDEV), Kind::Unsupported);
        assert_eq!(kind(Errno::LOOP), Kind::Corrupt);
        assert_eq!(kind(Errno::NAMETOOLONG), Kind::Invalid);
    }
}
