//! Refusals of commands. What the library and the gateway say becomes an answer in `bell_gateway::answer`.

use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_client::Failure;
use bell_control::Refused;
use bell_coord::Denied;
use bell_core::key::{Key, KeyError};
pub(crate) use bell_gateway::answer::{ended, granted, lease, refused, shown, state};

/// Why a command did not do what it was asked: an answer like any other.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Box<LockAnswer>);

impl Refusal {
    /// The request can never be right.
    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Outcome::Invalid, message, hint)
    }

    /// Something around the store, such as a folder of this user, does not do what it should.
    pub(crate) fn unavailable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Outcome::Unavailable, message, hint)
    }

    /// A refusal in these words.
    pub(crate) fn new(outcome: Outcome, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut answer = LockAnswer::new(outcome, None);
        answer.message = Some(message.into());
        answer.hint = Some(hint.into());
        Self(Box::new(answer))
    }

    /// The refusal of a request about `key`.
    pub(crate) fn about(key: &Key) -> impl FnOnce(Denied) -> Self {
        let key = key.clone();
        move |denied| Self(Box::new(refused(&denied, Some(&key))))
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> u8 {
        self.0.outcome.row().exit
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self(Box::new(refused(&denied, None)))
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self(refused.0)
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::invalid(format!("could not {error}"), error.hint())
    }
}

/// The words of a gateway, or of its silence.
impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self(failure.answer())
    }
}
