//! What is told from outside: `POST /webhooks/{source}`.
//!
//! A sender has no key: its signature is its proof. So nothing is parsed or stored before the signature over the whole
//! body has been checked, and nothing is answered as accepted before it is stored. What came of each delivery is counted,
//! also of those that are refused and leave nothing else behind:
//!
//! | verdict | what it means |
//! | --- | --- |
//! | `queued`, `duplicate`, `unmatched`, `full` | verified and on record: see `DeliveryVerdict` |
//! | `question` | the source asked whether somebody is there, and was answered |
//! | `no_secret`, `unsigned`, `bad_signature`, `stale` | not believed |
//! | `unreadable`, `too_large`, `unread` | it is not what the source sends, or did not arrive whole |
//! | `unavailable` | the store did not take it |
//! | `not_found` | there is no such source |
//!
//! Deliveries come in bursts, so there is a short way to them past the router, as there is to the acts on locks
//! (`super::quick`): with the same checks, by the same functions.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `believed` | which sources there are, with their secrets as they are now |
//! | `body` | bodies, and how much memory all of them may take |

mod believed;
mod body;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bell_api::control::deliveries::DeliveryAnswer;
use bell_api::outcome::Outcome;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::delivery::DeliveryVerdict;
use bell_intake::limits::{BODY_BYTES_MAX, UNSIGNED_BODY_BYTES_MAX};
use bell_intake::{self as intake, Delivery, Event, Hooks, Refused, Source, Trust, Verified};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::Semaphore;

use super::{Server, guard};
use crate::body::Sent;
use crate::limits::ANSWER_WITHIN;
use crate::patience::Patience;
use crate::refusal::{Answer, Refusal};
use crate::visit::Visit;
use believed::Believed;
use body::Memory;

/// Bytes of a body up to which it is verified on the spot: that takes a millisecond.
const LIGHT_BYTES: usize = 256 << 10;
/// Large bodies that are verified at a time: each may take a hundred megabytes once it is read.
const HEAVY_MAX: usize = 2;

/// What deliveries are judged by.
pub(super) struct Webhooks {
    believed: Believed,
    memory: Memory,
    heavy: Arc<Semaphore>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            believed: Believed::default(),
            memory: Memory::default(),
            heavy: Arc::new(Semaphore::new(HEAVY_MAX)),
        }
    }
}

/// Needs no key: the signature of a delivery is its proof.
pub(super) fn open() -> Router<Server> {
    Router::new().route("/webhooks/{source}", post(by_the_router))
}

async fn by_the_router(
    State(server): State<Server>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let name = name.map(|Path(name)| name).unwrap_or_default();
    take(&server, &name, request, &Patience::default()).await
}

/// Whether the short way leads to what is asked for.
pub(super) fn is_delivery<B>(request: &http::Request<B>) -> bool {
    request.method() == Method::POST && source_of(request.uri().path()).is_some()
}

/// The source that a path names. One that is written in another way than settings can write it is left to the router.
fn source_of(path: &str) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    path.strip_prefix("/webhooks/").filter(|name| !name.is_empty() && name.bytes().all(is_plain))
}

/// The short way: what the router does, without looking for a route and without its layers.
pub(super) async fn by_the_short_way(
    server: Server,
    visit: Visit,
    request: http::Request<impl Sent>,
) -> Response {
    if let Err(refusal) = guard::is_meant(&server, &request) {
        return guard::turn_away(refusal);
    }
    let name = source_of(request.uri().path()).unwrap_or_default().to_owned();
    let answer = pin!(take(&server, &name, request, &visit.patience));
    let answered = visit.patience.within(ANSWER_WITHIN, answer).await;
    guard::finish(visit.parking.as_ref(), answered)
}

async fn take(
    server: &Server,
    name: &str,
    request: http::Request<impl Sent>,
    patience: &Patience,
) -> Response {
    let hooks = server.webhooks().believed.hooks(server.control());
    let Some(source) = hooks.sources.get(name) else {
        server.metrics().delivered(name, "not_found");
        return no_such_source().into_response();
    };
    let (word, response) = match judge(server, &hooks, source, request, patience).await {
        Ok(answered) => answered,
        Err((word, refusal)) => (word, refusal.into_response()),
    };
    server.metrics().delivered(&source.name, word);
    response
}

/// The word for what came of it, and the answer.
type Answered = Result<(&'static str, Response), (&'static str, Refusal)>;

async fn judge(
    server: &Server,
    hooks: &Arc<Hooks>,
    source: &Source,
    request: http::Request<impl Sent>,
    patience: &Patience,
) -> Answered {
    let most = match &source.trust {
        // Whatever it is, it will be refused: it need not be read.
        Trust::Signed(secrets) if secrets.is_empty() => return Err(refused(source, &Refused::NoSecret)),
        Trust::Signed(_) => BODY_BYTES_MAX,
        Trust::Anyone => UNSIGNED_BODY_BYTES_MAX,
    };
    let (head, body) = request.into_parts();
    let body = server.webhooks().memory.whole(body, most, patience).await;
    let body = body.map_err(|refusal| ("unread", refusal))?;
    // Head and body lie in the parser's buffer, which is given back before the delivery waits to be stored.
    let told = Told { headers: head.headers, body: body.bytes };
    let verified = verify(server, hooks, source, told).await?;
    drop(body.reserved);
    match verified {
        Verified::Question(answer) => Ok(("question", as_asked(&answer))),
        Verified::Event(event) => store(server, hooks, &event).await,
    }
}

/// What was sent, whole.
struct Told {
    headers: HeaderMap,
    body: Bytes,
}

impl Told {
    fn verify(&self, source: &Source, now: Wall) -> Result<Verified, Refused> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        Delivery::new(headers, &*self.body)?.verify(source, now)
    }
}

/// Large ones are verified elsewhere, so that they keep nobody waiting.
async fn verify(
    server: &Server,
    hooks: &Arc<Hooks>,
    source: &Source,
    told: Told,
) -> Result<Verified, (&'static str, Refusal)> {
    let now = wall_now();
    let verified = if told.body.len() <= LIGHT_BYTES {
        told.verify(source, now)
    } else {
        // It is never closed.
        let turn = Arc::clone(&server.webhooks().heavy).acquire_owned().await.ok();
        let (hooks, name) = (Arc::clone(hooks), source.name.clone());
        let verified = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let source = hooks.sources.get(&name).ok_or(Refused::NoSecret)?;
            told.verify(source, now)
        });
        verified.await.map_err(|_| ("unavailable", broken()))?
    };
    verified.map_err(|why| refused(source, &why))
}

/// Answered once it is stored, with the jobs that came of it.
async fn store(server: &Server, hooks: &Hooks, event: &Event) -> Answered {
    let (source, delivery) = (event.context().source.as_str(), event.id().as_str());
    let told = server.control().tell(hooks, event, None).await;
    let received = told.map_err(|refused| ("unavailable", Refusal::of(*refused.0)))?;
    tracing::debug!(source, delivery, verdict = %received.verdict, "delivery stored");
    let word = received.verdict.word();
    if received.verdict == DeliveryVerdict::Full {
        return Err((word, full(&received.full)));
    }
    let response = match event.answer() {
        Some(answer) => as_asked(answer),
        None => {
            let answer = DeliveryAnswer::new(source, delivery, &received);
            (StatusCode::ACCEPTED, Answer(answer.outcome, answer)).into_response()
        }
    };
    Ok((word, response))
}

/// What the source wants to hear.
fn as_asked(answer: &intake::Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let kind = HeaderValue::from_static(answer.content_type);
    (status, [(CONTENT_TYPE, kind)], answer.body.clone()).into_response()
}

/// Nothing of it is kept: this line and a count are all that is left of it.
fn refused(source: &Source, why: &Refused) -> (&'static str, Refusal) {
    let word = why.code();
    tracing::warn!(source = source.name, why = word, "delivery refused");
    let status = StatusCode::from_u16(why.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let outcome = if status == StatusCode::UNAUTHORIZED { Outcome::Unauthorized } else { Outcome::Invalid };
    (word, Refusal::new(outcome, format!("could not {why}"), why.hint()).with(status))
}

fn no_such_source() -> Refusal {
    Refusal::new(
        Outcome::NotFound,
        "could not take the delivery: there is no webhook source of this name",
        "Add [webhooks.<source>] to config.toml, and send to /webhooks/<source>.",
    )
}

fn full(agents: &[AgentName]) -> Refusal {
    let agents: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    Refusal::new(
        Outcome::Unavailable,
        format!("could not queue it for {}: the queue is full", agents.join(", ")),
        "Send it again later: it makes the jobs that are missing, and no others twice.",
    )
}

fn broken() -> Refusal {
    Refusal::new(
        Outcome::Unavailable,
        "could not verify the delivery: something broke here",
        "Send it again; the daemon's log says more.",
    )
}
