//! Why a request was not let in, as an answer.
//!
//! The words and statuses are those of the table of outcomes. Where HTTP has a more exact status for a request
//! that breaks a rule (405, 413, 428), it is used, and the outcome stays `invalid`.

use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_api::refused::Refused;
use bell_core::key::{Key, KeyError};
use bell_core::lock::Fence;
use bell_locks::guard::Stale;
use bell_locks::guard::store::GuardError;
use bell_store::{Error, Kind};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::header::HeaderError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Seconds: a store that was restarted is often back by then.
const TRY_AGAIN_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request was not let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// Its body.
    pub answer: Box<LockAnswer>,
}

impl Refusal {
    pub(crate) fn new(outcome: Outcome, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut answer = LockAnswer::new(outcome, None);
        answer.message = Some(message.into());
        answer.hint = Some(hint.into());
        Self { status: status(outcome), answer: Box::new(answer) }
    }

    pub(crate) fn invalid(status: StatusCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, ..Self::new(Outcome::Invalid, message, hint) }
    }

    pub(crate) fn too_large(bytes_max: usize) -> Self {
        Self::invalid(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("could not take the body: it has more than {bytes_max} bytes"),
            "Send less at a time, or store the content elsewhere and write its name here.",
        )
    }

    pub(crate) fn about(mut self, key: &Key, fence: Option<Fence>) -> Self {
        self.answer.key = Some(key.clone());
        self.answer.fence = fence;
        self
    }

    /// The refusal as a response.
    pub(crate) fn response<B: From<Bytes>>(&self) -> Response<B> {
        let mut response = answer(self.status, &Refused::of(&self.answer));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, TRY_AGAIN_AFTER);
        }
        response
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        self.response()
    }
}

/// An answer as a response.
pub(crate) fn answer<B: From<Bytes>>(status: StatusCode, answer: &impl Serialize) -> Response<B> {
    // Numbers and text always have a JSON form.
    let json = serde_json::to_vec(answer).unwrap_or_default();
    let mut response = Response::new(B::from(Bytes::from(json)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The status of an outcome, as the table has it.
pub(crate) fn status(outcome: Outcome) -> StatusCode {
    StatusCode::from_u16(outcome.row().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl From<HeaderError> for Refusal {
    fn from(error: HeaderError) -> Self {
        let hint = "Send the fence of the lock that guards this, once, as X-Fence: 1234.";
        match error {
            HeaderError::Missing => Self::invalid(
                StatusCode::PRECONDITION_REQUIRED,
                "could not check the fence: X-Fence is missing",
                hint,
            ),
            HeaderError::Repeated => Self::new(
                Outcome::Invalid,
                "could not check the fence: X-Fence is there more than once",
                hint,
            ),
            HeaderError::Unreadable => {
                Self::new(Outcome::Invalid, "could not read X-Fence: it is not a number of 64 bits", hint)
            }
        }
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::new(Outcome::Invalid, format!("could not {error}"), error.hint())
    }
}

impl From<GuardError> for Refusal {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::Stale(stale) => stale.into(),
            GuardError::Store(error) => error.into(),
        }
    }
}

impl From<Stale> for Refusal {
    fn from(stale: Stale) -> Self {
        let mut refusal = Self::new(Outcome::Stale, stale.to_string(), Outcome::Stale.next());
        refusal.answer.fence = Some(stale.given);
        refusal.answer.seen_fence = Some(stale.seen);
        refusal
    }
}

/// Whatever is wrong with the store is not the client's doing: nothing was let in.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let message = match error.kind() {
            Kind::Unknown => format!("could not {error}; it may have happened"),
            _ => format!("could not {error}"),
        };
        let hint = match (error.kind(), error.advice()) {
            (Kind::Unknown, _) => "Send it again with the same fence: that does no harm if it has happened.",
            (_, "") => "Try again shortly; the operator should look at the store with bell store info.",
            (_, advice) => advice,
        };
        Self::new(Outcome::Unavailable, message, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_request_gets_both_fences_and_the_status_of_the_table() {
        let refusal = Refusal::from(Stale { given: Fence(3), seen: Fence(9) });
        assert_eq!(refusal.status, StatusCode::PRECONDITION_FAILED);
        assert_eq!((refusal.answer.fence, refusal.answer.seen_fence), (Some(Fence(3)), Some(Fence(9))));
    }

    #[test]
    fn every_refusal_says_what_happened_and_what_to_do() {
        let errors = [HeaderError::Missing, HeaderError::Repeated, HeaderError::Unreadable];
        let refusals = errors.map(Refusal::from).into_iter().chain([
            Refusal::too_large(8),
            Refusal::from(Error::new(Kind::Unavailable, "reach it")),
            Refusal::from(Error::new(Kind::Unknown, "hear from it")),
        ]);
        for refusal in refusals {
            assert!(refusal.answer.message.as_ref().is_some_and(|text| text.starts_with("could not ")));
            assert!(refusal.answer.hint.as_ref().is_some_and(|text| text.ends_with('.')));
        }
    }

    #[test]
    fn a_store_that_is_down_is_worth_another_try() {
        let response = Refusal::from(Error::new(Kind::Unavailable, "reach it")).response::<Body>();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(RETRY_AFTER));
    }
}
