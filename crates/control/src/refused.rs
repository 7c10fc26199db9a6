//! Why an operator's question was not answered, or an act not done: what command line, HTTP and MCP turn into theirs.

use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_coord::Denied;
use bell_core::key::{Key, KeyError};

use crate::answer;

/// A refusal: an answer like any other, with an outcome of the one table, what happened, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(pub Box<LockAnswer>);

impl Refused {
    /// A refusal in these words.
    pub fn new(outcome: Outcome, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut answer = LockAnswer::new(outcome, None);
        answer.message = Some(message.into());
        answer.hint = Some(hint.into());
        Self(Box::new(answer))
    }

    /// The request can never be right.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Outcome::Invalid, message, hint)
    }

    /// The refusal of a request about `key`.
    pub fn about(key: &Key) -> impl FnOnce(Denied) -> Self {
        let key = key.clone();
        move |denied| Self(Box::new(answer::refused(&denied, Some(&key))))
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// What happened.
    pub fn message(&self) -> &str {
        self.0.message.as_deref().unwrap_or_default()
    }

    /// What to do next.
    pub fn hint(&self) -> &str {
        self.0.hint.as_deref().unwrap_or(self.0.outcome.next())
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self(Box::new(answer::refused(&denied, None)))
    }
}

impl From<KeyError> for Refused {
    fn from(error: KeyError) -> Self {
        Self::invalid(format!("could not {error}"), error.hint())
    }
}
