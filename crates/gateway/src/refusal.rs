//! Why a request was not carried out, as a response.
//!
//! The words and statuses are those of the table of outcomes. Where HTTP has a more exact status, it is used and the
//! outcome stays: 403 for what is another run's, 405, 408, 413 and 415 for requests that break a rule.

use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_api::refused::Refused;
use bell_coord::Denied;
use bell_core::key::{Key, KeyError};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::answer;

/// What nearly every answer is.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Seconds: a store that was restarted is often back by then.
const TRY_AGAIN_AFTER: HeaderValue = HeaderValue::from_static("1");

/// What most answers take at the most: a grant has 400.
const ANSWER_BYTES: usize = 512;

/// Why a request was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The status of the response.
    pub status: StatusCode,
    /// Its body.
    pub answer: Box<LockAnswer>,
    /// How long to wait before asking again, where that is known.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal in these words.
    pub fn new(outcome: Outcome, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let mut answer = LockAnswer::new(outcome, None);
        answer.message = Some(message.into());
        answer.hint = Some(hint.into());
        Self { status: status(outcome), answer: Box::new(answer), retry_after: None }
    }

    /// The request can never be right.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Outcome::Invalid, message, hint)
    }

    /// The caller has not proved who it is.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        let hint = "Send the token of this run, once, as Authorization: Bearer TOKEN; it is in BELL_TOKEN.";
        Self::new(Outcome::Unauthorized, message, hint)
    }

    /// The caller is known, and this is not its business.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        let hint = "A token acts for its own run and for nothing else.";
        Self::new(Outcome::Unauthorized, message, hint).with(StatusCode::FORBIDDEN)
    }

    /// The caller has as much as one caller may have.
    pub(crate) fn limit(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Outcome::Limit, message, hint)
    }

    /// The same with a more exact status.
    #[must_use]
    pub(crate) fn with(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The same, to be asked again after this long.
    #[must_use]
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// The same with other advice.
    #[must_use]
    pub(crate) fn hinting(mut self, hint: &str) -> Self {
        self.answer.hint = Some(hint.to_owned());
        self
    }

    /// The refusal of a request about `key`.
    pub(crate) fn about(key: &Key) -> impl FnOnce(Denied) -> Self {
        let key = key.clone();
        move |denied| Self::of(answer::refused(&denied, Some(&key)))
    }

    /// An answer that is a refusal.
    pub(crate) fn of(answer: LockAnswer) -> Self {
        Self { status: status(answer.outcome), answer: Box::new(answer), retry_after: None }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let mut response = respond(self.status, &Refused::of(&self.answer));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => response.headers_mut().insert(RETRY_AFTER, TRY_AGAIN_AFTER),
            StatusCode::UNAUTHORIZED => {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
            }
            _ => None,
        };
        if let Some(wait) = self.retry_after {
            // A moment too early would be refused again.
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        response
    }
}

impl From<bell_control::Refused> for Refusal {
    fn from(refused: bell_control::Refused) -> Self {
        Self { status: status(refused.outcome()), answer: refused.0, retry_after: None }
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::of(answer::refused(&denied, None))
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::invalid(format!("could not {error}"), error.hint())
    }
}

/// An answer, with the status of its outcome.
pub(crate) struct Answer<T>(pub(crate) Outcome, pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response<Body> {
        respond(status(self.0), &self.1)
    }
}

fn respond(status: StatusCode, answer: &impl Serialize) -> Response<Body> {
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    // Numbers and text always have a JSON form.
    let _ = serde_json::to_writer(&mut json, answer);
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The status of an outcome, as the table has it.
fn status(outcome: Outcome) -> StatusCode {
    StatusCode::from_u16(outcome.row().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
