//! Speaking MCP over HTTP: one request, one answer.
//!
//! There are no sessions: each request shows who asks, so a client goes on over a restart of the daemon, and one that was
//! silent for an hour is not turned away. Revisions with a handshake get one; it is forgotten at once.
//!
//! A caller whose connection ends is gone: what it waits for is given up.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use hyper::body::Bytes;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::server::{Server, Side};

/// Answers one request of whoever `side` speaks for. The caller has checked the host that the request was meant for and
/// the page that it comes from, and has proved who asks. At `stopping` what is under way ends.
///
/// Dropped half-way, what the request waits for is given up.
pub async fn answer<B>(
    side: Side,
    stopping: CancellationToken,
    body_bytes_max: usize,
    request: Request<B>,
) -> Response<BoxBody<Bytes, Infallible>>
where
    B: Body + Send + 'static,
    B::Error: Display,
{
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        // An event that says when to come back makes some programs believe that there are no tools.
        .with_sse_retry(None)
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(body_bytes_max)
        .with_cancellation_token(stopping);
    let server = Server::new(side);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    service.handle(request).await
}
