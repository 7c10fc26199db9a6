//! For tests: a request that is sent by the router and by a short way past it, and what each of them answered.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tower_service::Service;

use crate::patience::Patience;
use crate::serve::Peer;
use crate::visit::Visit;

/// A request, to be sent both ways.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) target: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    body: String,
}

impl Sending {
    /// JSON, with nothing that shows whose it is.
    pub(super) fn json(target: &'static str, body: &str) -> Self {
        let sending = Self { target, headers: Vec::new(), body: body.to_owned() };
        sending.and("host", "localhost").and("content-type", "application/json")
    }

    pub(super) fn to(self, target: &'static str) -> Self {
        Self { target, ..self }
    }

    /// With this header beside those that it has.
    pub(super) fn and(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(given, _)| *given != name);
        self
    }

    /// With this header instead of those of its name.
    pub(super) fn with(self, name: &'static str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    pub(super) fn made(&self) -> Request<Body> {
        let mut request = Request::builder().method("POST").uri(self.target);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Body::from(self.body.clone())).unwrap()
    }

    pub(super) async fn by_the_router(&self, mut router: Router) -> Answered {
        let mut request = self.made();
        request.extensions_mut().insert(Peer::Socket);
        read(router.call(request).await.unwrap()).await
    }
}

/// Who comes by the short way in the place of [`Sending::by_the_router`].
pub(super) fn visit() -> Visit {
    Visit { peer: Peer::Socket, parking: None, patience: Patience::default() }
}

/// The status, the headers and the body of an answer.
pub(super) type Answered = (u16, HeaderMap, Value);

pub(super) async fn read(response: Response) -> Answered {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut headers = head.headers;
    // The router writes it itself; of what the short way answers, the parser does.
    headers.remove("content-length");
    let words = || Value::from(String::from_utf8_lossy(&body));
    (head.status.as_u16(), headers, serde_json::from_slice(&body).unwrap_or_else(|_| words()))
}
