//! A refusal as HTTP tells it: the answer, and the same in the form that programs look for.

use schemars::JsonSchema;
use serde::Serialize;

use crate::lock::LockAnswer;
use crate::outcome::Outcome;

/// The answer, and the same in the form that programs look for in a refusal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Refusal", description = "Why a request was not carried out.")]
pub struct Refused<'a> {
    /// How it ended, and all that is known.
    #[serde(flatten)]
    answer: &'a LockAnswer,
    /// The same in short.
    error: Problem<'a>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem", description = "Why a request was not carried out, in short.")]
struct Problem<'a> {
    /// The outcome.
    code: Outcome,
    /// What happened.
    message: &'a str,
    /// What to do next.
    hint: &'a str,
}

impl<'a> Refused<'a> {
    /// The refusal that this answer is.
    pub fn of(answer: &'a LockAnswer) -> Self {
        let error = Problem {
            code: answer.outcome,
            message: answer.message.as_deref().unwrap_or_default(),
            hint: answer.hint.as_deref().unwrap_or_default(),
        };
        Self { answer, error }
    }
}
