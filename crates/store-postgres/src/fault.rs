//! What PostgreSQL's errors mean to the caller: a kind, words, and what to do next.

use std::error::Error as StdError;
use std::sync::Arc;

use bell_store::{Error, Kind};

/// A failure of the engine, for as many callers as waited for it.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    hint: &'static str,
    reason: Arc<str>,
    answered: Answered,
}

/// Whether the server itself said no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answered {
    /// It was never asked.
    NotAsked,
    /// It was asked and answered with an error: nothing happened.
    Refused,
    /// The server's clock is ahead of anything it can be: nothing happened.
    Jumped,
    /// It was asked, and nobody knows what came of it.
    Silent,
}

impl Fault {
    /// No answer within the limit.
    pub(crate) fn late() -> Self {
        Self::of_silence("no answer in time")
    }

    /// The connection could not be made within the limit.
    pub(crate) fn unreachable() -> Self {
        Self { answered: Answered::NotAsked, ..Self::of_silence("no connection in time") }
    }

    /// An answer that this program's statements can't give.
    pub(crate) fn nonsense(reason: impl Into<Arc<str>>) -> Self {
        Self { kind: Kind::Corrupt, hint: SCHEMA_HINT, reason: reason.into(), answered: Answered::Refused }
    }

    /// A failure before anything was asked.
    pub(crate) fn while_connecting(error: &tokio_postgres::Error) -> Self {
        Self { answered: Answered::NotAsked, ..Self::from(error) }
    }

    /// The same failure to somebody who asked for a commit: it may have happened.
    pub(crate) fn of_commit(self) -> Self {
        match self.answered {
            Answered::Silent => {
                Self { kind: Kind::Unknown, hint: "Read the records again: it may have happened.", ..self }
            }
            Answered::NotAsked | Answered::Refused | Answered::Jumped => self,
        }
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_silence(&self) -> bool {
        self.answered == Answered::Silent
    }

    pub(crate) fn is_jump_of_the_clock(&self) -> bool {
        self.answered == Answered::Jumped
    }

    /// The error for one caller. `doing` reads after «could not».
    pub(crate) fn error(&self, doing: impl Into<String>) -> Error {
        Error::new(self.kind, doing).hint(self.hint).because(self.reason.to_string())
    }

    fn of_silence(reason: &str) -> Self {
        Self { kind: Kind::Unavailable, hint: GONE_HINT, reason: reason.into(), answered: Answered::Silent }
    }
}

impl From<&tokio_postgres::Error> for Fault {
    fn from(error: &tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            return of_connection(error);
        };
        let code = refusal.code().code();
        let (kind, hint) = meaning(code);
        let answered = match code {
            JUMPED => Answered::Jumped,
            // The server goes down. It may have committed before.
            "57P01" | "57P02" | "57P03" => Answered::Silent,
            _ => Answered::Refused,
        };
        Self { kind, hint, reason: format!("{} ({code})", refusal.message()).into(), answered }
    }
}

const JUMPED: &str = "BL002";

const GONE_HINT: &str =
    "Check that the server runs and can be reached; it is tried again with the next request.";

const SCHEMA_HINT: &str =
    "Something else has changed the schema: restore it from a backup, or name another with ?schema=.";

fn meaning(code: &str) -> (Kind, &'static str) {
    match code {
        "28P01" | "28000" => (Kind::Unauthorized, "Check user and password in the address, and pg_hba.conf."),
        "42501" => (
            Kind::Unauthorized,
            "Grant this role what the page on PostgreSQL lists, or let the schema's owner open it first.",
        ),
        "3D000" => (Kind::Invalid, "Create the database, or name one that exists."),
        "25006" => {
            (Kind::ReadOnly, "Name the primary server, or list all hosts: postgres://user@a,b/database.")
        }
        "53100" => (Kind::Full, "Free some space on the server's disk; nothing was lost."),
        "53200" => (Kind::Unavailable, "The server is out of memory: try again, then look there."),
        "53300" => (
            Kind::Unavailable,
            "The server takes no more connections: raise max_connections, or put PgBouncer in front.",
        ),
        "BL001" => (
            Kind::Rewound,
            "Stop the work that relied on it, find out what was lost, then raise the epoch of the store.",
        ),
        "BL003" => (
            Kind::Unsupported,
            "Run ALTER ROLE … SET default_transaction_isolation = 'read committed' for this role.",
        ),
        "P0002" | "3F000" | "42P01" | "42883" | "42703" | "XX001" | "XX002" => (Kind::Corrupt, SCHEMA_HINT),
        "55P03" => (Kind::Unavailable, "Another process keeps the store busy: try again."),
        _ => (Kind::Unavailable, GONE_HINT),
    }
}

/// The client library tells these failures apart by their words only.
fn of_connection(error: &tokio_postgres::Error) -> Fault {
    let reason = in_full(error);
    let (kind, hint) = if reason.starts_with("authentication error") || reason.contains("password missing") {
        meaning("28P01")
    } else if reason.contains("TLS") {
        (
            Kind::Unsupported,
            "Check that the server offers TLS, with a certificate for its host name that sslrootcert can vouch for.",
        )
    } else if reason.contains("does not allow writes") {
        meaning("25006")
    } else {
        (Kind::Unavailable, GONE_HINT)
    };
    Fault { kind, hint, reason: reason.into(), answered: Answered::Silent }
}

fn in_full(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
