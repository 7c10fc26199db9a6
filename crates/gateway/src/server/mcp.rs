//! MCP over HTTP: who asks, and what there is for them. The protocol itself is `bell-mcp`'s.
//!
//! A run's token leads to that run's own supervisor, on its socket: the supervisor does what is asked, and the daemon has
//! no rights over the run beside it. An API key has the tools of operators.

mod cancelling;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bell_api::outcome::Outcome;
use bell_client::Client;
use bell_control::Who;
use bell_control::who::Way;
use bell_coord::keys::Role;
use bell_coord::{Denied, Token};
use bell_mcp::{Operator, Rights, RunSide, Side};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};

use super::Server;
use super::guard::{bearer, peer, prove, unknown};
use crate::body;
use crate::limits::BODY_BYTES_MAX;
use crate::patience::Patience;
use crate::refusal::Refusal;
use crate::serve::Peer;
use cancelling::{Calls, Said};

/// Bytes of what the library says when it refuses: a sentence.
const WORDS_BYTES_MAX: usize = 4_096;

/// Proves by itself who asks: a key, or the token of a run.
pub(crate) fn open() -> Router<Server> {
    let calls = Calls::default();
    Router::new().route(
        "/mcp",
        any(move |State(server): State<Server>, request: Request| answer(server, calls.clone(), request)),
    )
}

async fn answer(server: Server, calls: Calls, request: Request) -> Response {
    let stopping = server.stopping().clone();
    tokio::select! {
        biased;
        answered = attend(&server, &calls, request) => answered.unwrap_or_else(IntoResponse::into_response),
        () = stopping.cancelled() => stopped().into_response(),
    }
}

async fn attend(server: &Server, calls: &Calls, request: Request) -> Result<Response, Refusal> {
    let (caller, side) = side(server, peer(&request), request.headers()).await?;
    let (head, sent) = request.into_parts();
    let sent = body::json(sent, &Patience::default()).await?;
    let said = Said::in_(&sent);
    if let Some(Said::Cancels(id)) = &said {
        calls.cancel(&caller, id);
    }
    let call = match said {
        Some(Said::Calls(id)) => Some(calls.begin(caller, id)),
        _ => None,
    };
    let cancelled = async {
        match &call {
            Some(call) => call.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let request = Request::from_parts(head, Body::from(sent));
    tokio::select! {
        biased;
        answered = bell_mcp::http::answer(side, server.stopping().clone(), BODY_BYTES_MAX, request) => {
            Ok(in_our_words(answered.map(Body::new)).await)
        }
        // Nobody wants an answer any more, and one with nothing in it ends the request.
        () = cancelled => Ok(StatusCode::ACCEPTED.into_response()),
    }
}

/// What the library refuses it says in plain text; whoever asks here is told as everywhere else.
async fn in_our_words(response: Response) -> Response {
    let is_said = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() != b"text/plain");
    let status = response.status();
    if is_said || !status.is_client_error() {
        return response;
    }
    let words = Limited::new(response.into_body(), WORDS_BYTES_MAX).collect().await;
    let words = words.map(|words| words.to_bytes()).unwrap_or_default();
    let message = format!("could not take the message: {}", String::from_utf8_lossy(&words));
    let hint =
        "POST one JSON-RPC message as application/json, and accept application/json and text/event-stream.";
    Refusal::invalid(message, hint).with(status).into_response()
}

/// Whom a request speaks for: a name for who asks, and what there is for them.
async fn side(server: &Server, peer: Peer, headers: &HeaderMap) -> Result<(String, Side), Refusal> {
    let shown = bearer(headers)?.ok_or_else(unknown)?;
    if let Some(token) = Token::parse(shown) {
        let run = run(server, &token).await?;
        return Ok((format!("session {}", token.session()), Side::Run(run)));
    }
    let (name, role) = prove(server, peer, shown).await?;
    let rights = match role {
        Role::Read => Rights::Look,
        Role::Full => Rights::Act,
    };
    let who = Who::key(name.as_str()).by(Way::Mcp);
    Ok((format!("key {name}"), Side::Operator(Operator::new(server.control().clone(), who, rights))))
}

/// The run of a token, and the way to its supervisor.
async fn run(server: &Server, token: &Token) -> Result<RunSide, Refusal> {
    let control = server.control();
    control.coord.resume(token).await.map_err(|denied| match denied {
        Denied::Unauthorized => unknown(),
        Denied::Lost(_) => ended(),
        denied => denied.into(),
    })?;
    let pool = control.coord.pool().await?;
    let slot = pool.slots.iter().find(|slot| slot.session == *token.session()).ok_or_else(no_run)?;
    let socket = control.place.counter(&slot.run);
    if !is_socket(&socket) {
        return Err(elsewhere());
    }
    let url = format!("unix:{}", socket.display());
    let client =
        Client::new(&url, &token.expose().into()).map_err(|failure| Refusal::of(*failure.answer()))?;
    Ok(RunSide::new(client))
}

/// The folder is the agent's: a link in it could lead anywhere.
fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket())
}

fn ended() -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not act for this run: it has ended, and its token with it",
        "Stop: whatever this run does now counts for nothing.",
    )
}

fn no_run() -> Refusal {
    Refusal::forbidden("could not act for a run: the token is that of another kind of session")
}

fn elsewhere() -> Refusal {
    Refusal::forbidden("could not act for this run: it runs on another machine of the fleet")
        .hinting("Ask the daemon of that machine, or start bell mcp inside the run.")
}

fn stopped() -> Refusal {
    Refusal::new(
        Outcome::Unavailable,
        "could not go on: the daemon stops",
        "Call again in a moment; who waits for a lock and calls with the same request_id within 10 s keeps its place.",
    )
}
