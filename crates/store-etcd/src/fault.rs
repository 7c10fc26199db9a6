//! What etcd's errors mean to the caller: a kind, words, and what to do next.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use bell_store::{Error, Kind};
use etcd_client::Error as EtcdError;

use crate::plain::NotSent;

/// Whether a request that failed may have been carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// It was refused, or never sent.
    Never,
    /// Nobody can say.
    Perhaps,
}

/// A failure of a request.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) reached: Reached,
    words: String,
    hint: &'static str,
}

impl Fault {
    /// No answer within the time limit.
    pub(crate) fn late() -> Self {
        Self::new(Kind::Unavailable, Reached::Perhaps, "no answer in time")
    }

    /// No connection.
    pub(crate) fn unconnected(error: &(dyn StdError + 'static)) -> Self {
        Self::new(Kind::Unavailable, Reached::Never, deepest(error).unwrap_or_else(|| error.to_string()))
    }

    /// An answer from another cluster than those before.
    pub(crate) fn another_cluster() -> Self {
        let words = "its members are of different clusters";
        let hint = "Name members of one cluster only (etcdctl member list).";
        Self { hint, ..Self::new(Kind::Invalid, Reached::Perhaps, words) }
    }

    /// An answer as of a revision before one that was seen.
    pub(crate) fn rewound(seen: i64, answered: i64) -> Self {
        let words = format!("its revision went back from {seen} to {answered}");
        Self::new(Kind::Rewound, Reached::Perhaps, words)
    }

    fn new(kind: Kind, reached: Reached, words: impl Into<String>) -> Self {
        Self { kind, reached, words: words.into(), hint: hint(kind) }
    }

    /// The same failure of something that came before the request was sent.
    pub(crate) fn before_sending(self) -> Self {
        Self { reached: Reached::Never, ..self }
    }

    /// Whether another member, or a moment later the same one, may do better.
    pub(crate) fn is_transient(&self) -> bool {
        self.kind.is_transient()
    }

    pub(crate) fn is_compacted(&self) -> bool {
        self.words.contains(COMPACTED)
    }

    /// The error of a request that changes nothing. `doing` reads after «could not».
    pub(crate) fn reading(self, doing: impl Into<String>) -> Error {
        Error::new(self.kind, doing).hint(self.hint).because(self)
    }

    /// The error of a request that may have been carried out without an answer.
    pub(crate) fn writing(self, doing: impl Into<String>) -> Error {
        match (self.kind, self.reached) {
            (Kind::Unavailable, Reached::Perhaps) => {
                Error::new(Kind::Unknown, doing).hint(hint(Kind::Unknown)).because(self)
            }
            _ => self.reading(doing),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl StdError for Fault {}

impl From<EtcdError> for Fault {
    fn from(error: EtcdError) -> Self {
        let (kind, reached) = match &error {
            EtcdError::GRpcStatus(status) => classify(status.message(), status.code() as i32, status),
            EtcdError::InvalidArgs(_) | EtcdError::InvalidUri(_) | EtcdError::InvalidMetadataValue(_) => {
                (Kind::Invalid, Reached::Never)
            }
            error => (Kind::Unavailable, connecting(error)),
        };
        let words = match &error {
            // Its details are for programs; what etcd or the connection said is in the message.
            EtcdError::GRpcStatus(status) => deepest(status).unwrap_or_else(|| status.message().to_owned()),
            error => error.to_string(),
        };
        Self::new(kind, reached, words)
    }
}

const COMPACTED: &str = "required revision has been compacted";

/// What etcd says, what it means, and whether what was asked may have happened.
const WORDS: &[(&str, Kind, Reached)] = &[
    ("database space exceeded", Kind::Full, Reached::Never),
    ("request is too large", Kind::Invalid, Reached::Never),
    ("received message larger than max", Kind::Invalid, Reached::Never),
    ("too many operations in txn", Kind::Invalid, Reached::Never),
    ("invalid user ID or password", Kind::Unauthorized, Reached::Never),
    ("user name is empty", Kind::Unauthorized, Reached::Never),
    ("user name not found", Kind::Unauthorized, Reached::Never),
    ("permission denied", Kind::Unauthorized, Reached::Never),
    ("invalid auth token", Kind::Unauthorized, Reached::Never),
    ("authentication is not enabled", Kind::Unauthorized, Reached::Never),
    ("revision of auth store is old", Kind::Unavailable, Reached::Never),
    ("corrupt cluster", Kind::Corrupt, Reached::Never),
    (COMPACTED, Kind::Unavailable, Reached::Never),
    ("no leader", Kind::Unavailable, Reached::Never),
    ("not supported for learner", Kind::Unavailable, Reached::Never),
    ("too many requests", Kind::Unavailable, Reached::Never),
];

const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;
const UNIMPLEMENTED: i32 = 12;
const DATA_LOSS: i32 = 15;
const UNAUTHENTICATED: i32 = 16;

fn classify(message: &str, code: i32, status: &(dyn StdError + 'static)) -> (Kind, Reached) {
    if let Some((_, kind, reached)) = WORDS.iter().find(|(words, ..)| message.contains(words)) {
        return (*kind, *reached);
    }
    match code {
        INVALID_ARGUMENT => (Kind::Invalid, Reached::Never),
        PERMISSION_DENIED | UNAUTHENTICATED => (Kind::Unauthorized, Reached::Never),
        UNIMPLEMENTED => (Kind::Unsupported, Reached::Never),
        DATA_LOSS => (Kind::Corrupt, Reached::Never),
        _ => (Kind::Unavailable, connecting(status)),
    }
}

/// A connection that was never made carried nothing.
fn connecting(error: &(dyn StdError + 'static)) -> Reached {
    let refused = |error: &(dyn StdError + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(
            kind,
            Some(
                io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::AddrNotAvailable
            )
        ) || error.is::<NotSent>()
            || error.to_string() == "tcp connect error"
            || error.to_string() == "dns error"
    };
    if chain(error).any(refused) { Reached::Never } else { Reached::Perhaps }
}

/// The cause behind all causes: «connection refused» rather than «transport error».
fn deepest(error: &(dyn StdError + 'static)) -> Option<String> {
    chain(error).skip(1).last().map(ToString::to_string)
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Unavailable => {
            "Check that these addresses are right and that a majority of the members runs and sees a leader (etcdctl endpoint status); then try again."
        }
        Kind::Unknown => "Read the records again: it may have happened.",
        Kind::Full => {
            "Compact and defragment etcd, or raise --quota-backend-bytes; then etcdctl alarm disarm. Nothing was lost."
        }
        Kind::Unauthorized => {
            "Check user and password, and that the user may read and write the prefix (etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/); leave them out if etcd has no authentication."
        }
        Kind::Invalid => {
            "Store less in one commit, or raise --max-request-bytes and --max-txn-ops of every member."
        }
        Kind::Corrupt => {
            "Stop every process that uses the store, and look at etcd's alarms (etcdctl alarm list)."
        }
        Kind::Rewound => {
            "Restored from a backup, etcd gives revisions again that it gave before, and fences with them: restore it with a raised revision where etcdutl can, or start with a new prefix and new resources."
        }
        Kind::Unsupported => "Use etcd 3.4 or newer.",
        Kind::ReadOnly | Kind::TooNew | Kind::Replaced => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: Kind, reached: Reached) -> Fault {
        Fault::new(kind, reached, "for the test")
    }

    #[test]
    fn only_a_write_that_may_have_happened_is_unknown() {
        assert_eq!(fault(Kind::Unavailable, Reached::Perhaps).writing("commit").kind(), Kind::Unknown);
        assert_eq!(fault(Kind::Unavailable, Reached::Never).writing("commit").kind(), Kind::Unavailable);
        assert_eq!(fault(Kind::Full, Reached::Perhaps).writing("commit").kind(), Kind::Full);
        assert_eq!(fault(Kind::Unavailable, Reached::Perhaps).reading("read").kind(), Kind::Unavailable);
    }

    #[test]
    fn a_connection_that_was_refused_carried_nothing_and_one_that_broke_may_have() {
        let refused = EtcdError::IoError(io::ErrorKind::ConnectionRefused.into());
        let broken = EtcdError::WatchError("closed".to_owned());
        assert_eq!(Fault::from(broken).reached, Reached::Perhaps);
        // etcd-client does not name the cause of its I/O errors, so the cause itself is looked at.
        let EtcdError::IoError(cause) = refused else { unreachable!() };
        assert_eq!(connecting(&cause), Reached::Never);
    }

    #[test]
    fn every_kind_that_a_caller_can_do_something_about_comes_with_advice() {
        for (_, kind, _) in WORDS {
            assert!(!hint(*kind).is_empty(), "{kind:?}");
        }
    }
}
