//! The short way to the acts on locks, which some ask for thousands of times a second.
//!
//! A router looks for a route among many and calls through its layers, each of them in a box of its own; for these acts
//! that took as much as carrying them out. What is checked here, in which order, and what is answered, is what the router
//! does, by the same functions.

#[cfg(test)]
mod tests;

use std::pin::pin;

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, Request};

use super::Server;
use super::guard::{self, Admitted};
use crate::acts;
use crate::body::{Sent, asked_bytes, read};
use crate::limits::ANSWER_WITHIN;
use crate::refusal::Refusal;
use crate::visit::Visit;

/// An act that there is a short way to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Acquire,
    Renew,
    Release,
}

impl Act {
    /// The act that a request asks for, if it is one of them.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        match request.uri().path() {
            _ if request.method() != Method::POST => None,
            "/v1/locks/acquire" => Some(Self::Acquire),
            "/v1/locks/renew" => Some(Self::Renew),
            "/v1/locks/release" => Some(Self::Release),
            _ => None,
        }
    }

    /// Answers the request.
    pub(crate) async fn answer(self, server: Server, visit: Visit, request: Request<impl Sent>) -> Response {
        if let Err(refusal) = guard::is_meant(&server, &request) {
            return guard::turn_away(refusal);
        }
        let answer = pin!(self.carry_out(&server, &visit, request));
        let answered = visit.patience.within(ANSWER_WITHIN, answer).await;
        let answered = answered.map(|answer| answer.unwrap_or_else(IntoResponse::into_response));
        guard::finish(visit.parking.as_ref(), answered)
    }

    async fn carry_out(
        self,
        server: &Server,
        visit: &Visit,
        request: Request<impl Sent>,
    ) -> Result<Response, Refusal> {
        let (Parts { method, headers, .. }, body) = request.into_parts();
        let caller = &guard::caller(server, Admitted::Sessions, visit.peer, &method, &headers).await?;
        let body = asked_bytes(&headers, body, &visit.patience).await?;
        // The head lies in the parser's buffer, and so may the body. As long as anybody has them the parser needs another
        // buffer to see whether the peer is still there.
        drop(headers);
        let answer = match self {
            Self::Acquire => {
                let request = read(body)?;
                return acts::acquire(server, caller, visit.parking.clone(), request).await;
            }
            Self::Renew => acts::renew(server, caller, read(body)?).await?,
            Self::Release => acts::release(server, caller, read(body)?).await?,
        };
        Ok(answer.into_response())
    }
}
