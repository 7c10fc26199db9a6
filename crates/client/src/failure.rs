//! Why there is no answer, or not the one that was hoped for.

use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;

/// Why a call was not carried out, as far as the caller can know.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The gateway refused, in these words.
    #[error("{}", .0.message.as_deref().unwrap_or("it was refused"))]
    Refused(Box<LockAnswer>),
    /// Nobody was there. Nothing was done.
    #[error("could not reach the gateway at {address}: {why}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What happened.
        why: String,
    },
    /// The request left, and no answer came that makes sense. It may have been carried out.
    #[error("could not hear from the gateway at {address}: {why}; it may have done what it was asked to")]
    Unknown {
        /// Where it is.
        address: String,
        /// What happened.
        why: String,
    },
    /// What was given can't be sent: the address, or the token.
    #[error("{0}")]
    Unusable(String),
}

impl Failure {
    /// The failure as an answer, in the words of the table of outcomes.
    pub fn answer(self) -> Box<LockAnswer> {
        let message = self.to_string();
        let (outcome, hint) = match self {
            Self::Refused(answer) => return answer,
            Self::Unreachable { .. } => (
                Outcome::Unreachable,
                "Nothing was done: without an answer there is no lock. See that the address is right, and that bell up (for a run, its supervisor) is there.",
            ),
            Self::Unknown { .. } => (
                Outcome::Unavailable,
                "Do not take it for done: look (bell lock show), or repeat it with the same request id.",
            ),
            Self::Unusable(_) => (
                Outcome::Unauthorized,
                "Leave BELL_URL and BELL_TOKEN as the supervisor of the run has set them.",
            ),
        };
        let mut answer = LockAnswer::new(outcome, None);
        answer.message = Some(message);
        answer.hint = Some(hint.to_owned());
        Box::new(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_is_ever_success() {
        let failures = [
            Failure::Unreachable { address: "unix:/x".into(), why: "gone".into() },
            Failure::Unknown { address: "unix:/x".into(), why: "cut".into() },
            Failure::Unusable("could not use the token".into()),
        ];
        let codes: Vec<u8> = failures.map(|failure| failure.answer().outcome.row().exit).into();
        assert_eq!(codes, [6, 5, 3]);
    }
}
