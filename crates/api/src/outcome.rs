//! How an act can end (L24): each outcome has one word, one HTTP status, one exit code and one MCP result.
//!
//! The enum and its table are made from the same lines, so an outcome without a row can't be written.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit;

/// One line of the table of outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The outcome.
    pub outcome: Outcome,
    /// What JSON and people call it.
    pub word: &'static str,
    /// The status of an HTTP answer.
    pub http: u16,
    /// The exit code of a command.
    pub exit: u8,
    /// How an MCP tool result is marked.
    pub mcp: Mcp,
    /// What to do next: one sentence.
    pub next: &'static str,
}

/// How an MCP tool result is marked. Whatever a model must not take for success is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mcp {
    /// A plain result.
    Ok,
    /// A result with the error flag set.
    Error,
}

macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident $word:literal, $http:literal, $exit:ident, $mcp:ident, $next:literal;)*) => {
        /// How an act ended. The names and words are stable: programs match on them.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
        pub enum Outcome {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        /// Every outcome, in the order of the enum.
        pub const TABLE: &[Row] = &[
            $(Row {
                outcome: Outcome::$name,
                word: $word,
                http: $http,
                exit: exit::$exit,
                mcp: Mcp::$mcp,
                next: $next,
            },)*
        ];
    };
}

outcomes! {
    /// The lock is the caller's.
    Granted "granted", 200, OK, Ok, "Do the work, send the fence with every write, then release the lock.";
    /// Somebody else has the lock, and the caller did not want to wait.
    Busy "busy", 409, CONFLICT, Error,
        "Skip it and go on with other work, or wait with --wait.";
    /// Somebody else had the lock for as long as the caller wanted to wait.
    TimedOut "timed_out", 408, TIMED_OUT, Error,
        "Go on with other work and try again later, or wait longer with --wait.";
    /// Waiting would never end: the sessions of the cycle wait for each other.
    Deadlock "deadlock", 409, CONFLICT, Error,
        "Release a lock that the cycle names, then try again; take several keys in one call to avoid this.";
    /// The lock is another session's, so the caller can't renew or release it.
    NotHolder "not_holder", 409, CONFLICT, Error,
        "Stop the work that this lock guards: another session holds it.";
    /// Nobody has the lock, so there is nothing to renew or release.
    NotHeld "not_held", 404, NOT_FOUND, Error,
        "Acquire the lock before the work that it guards; after a release nothing is left to do.";
    /// The caller had the lock and has it no longer: it ran out or was broken. This is final.
    Lost "lost", 410, LOST, Error,
        "Stop the work at once and write nothing more; acquire the lock again before starting over.";
    /// The request breaks a rule; sent again it will be refused again.
    Invalid "invalid", 400, BAD_REQUEST, Error, "Correct the request as the message says.";
    /// The caller has as much as one caller may have: locks, sessions, waits, calls or streams. Others are not affected.
    Limit "limit", 429, LIMIT, Error,
        "Give back some of what the message names, or wait as long as Retry-After says; then try again.";
    /// The store can't be reached or answers late. Nothing was granted.
    Unavailable "unavailable", 503, UNAVAILABLE, Error,
        "Do not start the work; try again shortly, and look at the store with bell store info if it stays so.";
    /// The caller has not proved who it is, or may not do this.
    Unauthorized "unauthorized", 401, UNAUTHORIZED, Error,
        "Send the token that the acquire answer gave, or the API key.";
    /// The lock is free again.
    Released "released", 200, OK, Ok, "Nothing is left to do.";
    /// The lease lasts its full ttl again, from now.
    Renewed "renewed", 200, OK, Ok, "Go on, and renew again within a third of the ttl.";
    /// An operator ended somebody's lease.
    Broken "broken", 200, OK, Ok, "The old holder is told and its fence is old; acquire the lock to use it.";
    /// Nobody has the lock.
    Free "free", 200, OK, Ok, "Acquire the lock to use it; it may be taken in the meantime.";
    /// Somebody has the lock.
    Held "held", 200, OK, Ok, "Wait until it is free, or ask the holder.";
    /// The list is complete, or says that there is more.
    Listed "listed", 200, OK, Ok, "Nothing is left to do.";
    /// A guarded write was accepted.
    Written "written", 200, OK, Ok, "Go on.";
    /// A guarded write was refused: a newer holder has written already.
    Stale "stale", 412, LOST, Error,
        "Stop the work at once: its lease is over and a newer holder has written, or the store was set back to an older copy (bell store raise-epoch).";
    /// A session ended, and all its leases with it.
    Ended "ended", 200, OK, Ok, "Nothing is left to do.";
    /// Nothing of that name has been written.
    NotFound "not_found", 404, NOT_FOUND, Error, "Look at the name; if it is right, nothing has been written yet.";
    /// Nobody answered at all. Nothing was done.
    Unreachable "unreachable", 502, UNREACHABLE, Error, "Do not start the work: without an answer there is no lock.";
    /// What was asked for has not come to be yet, and is still being waited for.
    Waiting "waiting", 202, TIMED_OUT, Error,
        "Call again at once with the same request id: the place in the queue is kept for a few seconds.";
}

impl Outcome {
    /// Its line of the table.
    pub const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// What JSON and people call it.
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    /// What to do next: one sentence.
    pub const fn next(self) -> &'static str {
        self.row().next
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The table in Markdown, for the reference.
pub fn markdown() -> String {
    let mut page = String::from(
        "| outcome | HTTP status | exit code | MCP result | what to do next |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in TABLE {
        let mcp = match row.mcp {
            Mcp::Ok => "ok",
            Mcp::Error => "error",
        };
        page.push_str(&format!("| `{}` | {} | {} | {mcp} | {} |\n", row.word, row.http, row.exit, row.next));
    }
    page
}
