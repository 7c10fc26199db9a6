//! The ways to be refused. Each has one word, one exit code, one HTTP status in the table of outcomes.

use bell_core::acquire::{Busy, PublicHolder};
use bell_core::deadlock::Cycle;

/// Why a lock was not granted, renewed or released.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Somebody else holds the key and the caller did not want to wait.
    #[error("{} is held by {}", .0.key, holders(&.0.holders))]
    Busy(Box<Busy>),
    /// The caller's time to wait ran out.
    #[error("waited for {} until the time was up; it is held by {}", .0.key, holders(&.0.holders))]
    TimedOut(Box<Busy>),
    /// Waiting would never have ended.
    #[error("waiting would close a cycle: {}", .0.path().join(" → "))]
    Deadlock(Cycle),
    /// Somebody else holds the key.
    #[error("held by {}", holders(.0))]
    NotHolder(Vec<PublicHolder>),
    /// Nobody holds the key.
    #[error("not held")]
    NotHeld,
    /// What the caller held is over; that is final.
    #[error("{0}")]
    Lost(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The caller has as much as one caller may have.
    #[error("{0}")]
    Limit(String),
    /// The store can't be reached, answers late, or refuses. What was asked may have happened if
    /// [`bell_store::Kind::Unknown`]; repeated with the same request id it has one outcome.
    #[error("the store is unavailable: could not {0}")]
    Unavailable(#[from] bell_store::Error),
    /// The secret does not prove the session.
    #[error("the secret does not prove this session")]
    Unauthorized,
}

/// Who holds, for a sentence.
fn holders(holders: &[PublicHolder]) -> String {
    match holders {
        [] => "nobody, but others are first in line".to_owned(),
        [one] => format!("{} for {} s", one.who, one.held.as_secs()),
        [one, rest @ ..] => format!("{} and {} more", one.who, rest.len()),
    }
}
