//! The routes of sessions of programs outside of any run.
//!
//! A session is made with a full API key and lives by heartbeats, or for as long as a connection of it is open: one that
//! waits for a lock, or [`hold`]. Whoever stops doing either is taken for dead, and what it held is free.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use bell_api::ask::{Nothing, SessionRequest};
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_api::session::{HeartbeatAnswer, RevokedAnswer, SessionAnswer};
use bell_coord::{Denied, Session};
use bell_core::session::{Identity, SESSION_TTL};
use bell_store::clock::boottime;

use super::Server;
use super::guard::Caller;
use super::stream::{Gone, Outlet};
use crate::body::Asked;
use crate::counter::Counter;
use crate::limits::{SESSION_TTL_MAX, SESSION_TTL_MIN};
use crate::refusal::{Answer, Refusal};
use crate::routes::wrong_method;
use crate::sessions::check_words;

const KEEP_IT: &str =
    "Send a heartbeat within a third of ttl_ms, or keep /v1/sessions/hold open; end it when you are done.";
const RENEW_THEM: &str = "Renew each lock within a third of its ttl; end the session when you are done.";

/// After a store that did not answer: it may be back by then.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Router<Server> {
    let only = |route: MethodRouter<Server>| route.fallback(wrong_method);
    Router::new()
        .route("/v1/sessions", only(post(make)))
        .route("/v1/sessions/heartbeat", only(post(heartbeat)))
        .route("/v1/sessions/hold", only(get(hold)))
        .route("/v1/sessions/end", only(post(end)))
}

async fn make(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Asked(request): Asked<SessionRequest>,
) -> Result<Answer<SessionAnswer>, Refusal> {
    let key = caller.key()?;
    check_words(&request)?;
    let ttl = ttl(&request)?;
    let label = request.label.unwrap_or_else(|| format!("key {key}"));
    let who = Identity { label: Some(label), pid: request.pid, node: request.node, ..Identity::default() };
    let session = server.outside().sessions.open(who, ttl, key).await?;
    let answer = SessionAnswer {
        outcome: Outcome::Written,
        session: session.id().clone(),
        ttl_ms: ttl.map(ms),
        token: Some(session.token().expose().into()),
        hint: Some(if ttl.is_some() { KEEP_IT } else { RENEW_THEM }.to_owned()),
    };
    Ok(Answer(Outcome::Written, answer))
}

/// How long a session is to outlive each heartbeat; `None`: there will be none.
fn ttl(request: &SessionRequest) -> Result<Option<Duration>, Refusal> {
    let ttl = request.ttl_ms.map_or(SESSION_TTL, Duration::from_millis);
    match (request.detached, request.ttl_ms) {
        (true, None) => Ok(None),
        (true, Some(_)) => Err(Refusal::invalid(
            "could not make a session that is detached and has a ttl: nobody sends its heartbeats",
            "Leave out one of the two.",
        )),
        (false, _) if (SESSION_TTL_MIN..=SESSION_TTL_MAX).contains(&ttl) => Ok(Some(ttl)),
        (false, _) => Err(Refusal::invalid(
            "could not make a session that lasts so long without a heartbeat: 5 s to 1 day are possible",
            "Give ttl_ms in milliseconds, 5000 to 86400000, or leave it out for 15000.",
        )),
    }
}

async fn heartbeat(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Answer<HeartbeatAnswer>, Refusal> {
    let session = caller.session()?;
    let revoked = beat(&server, session).await?;
    let answer = HeartbeatAnswer {
        outcome: Outcome::Renewed,
        session: session.id().clone(),
        ttl_ms: session.ttl().map(ms),
        revoked,
    };
    Ok(Answer(Outcome::Renewed, answer))
}

/// A heartbeat of the session's owner, with what it has to know.
async fn beat(server: &Server, session: &Session) -> Result<Vec<RevokedAnswer>, Denied> {
    let sent = boottime();
    let revoked = server.locks().heard_of(session).await;
    match &revoked {
        Ok(_) => server.outside().sessions.heard(session.id(), sent),
        Err(Denied::Lost(_)) => server.outside().sessions.forget(session.id()),
        Err(_) => {}
    }
    Ok(revoked?.into_iter().map(RevokedAnswer::from).collect())
}

/// Keeps the session alive for as long as the answer is read, and says what becomes of it: `revoked` for each lease that
/// an operator breaks, `ended` when the session is over.
async fn hold(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Refusal> {
    let session = caller.session()?.clone();
    let holds = server.outside().holds.clone();
    holds.open(|outlet| async move { tell(&server, &session, &outlet).await })
}

async fn tell(server: &Server, session: &Session, outlet: &Outlet) -> Result<(), Gone> {
    let every = session.ttl().unwrap_or(SESSION_TTL) / 3;
    loop {
        match beat(server, session).await {
            Ok(revoked) => {
                for lease in revoked {
                    outlet.say("revoked", None, &lease).await?;
                }
            }
            Err(lost @ Denied::Lost(_)) => {
                return outlet.say("ended", None, &*Refusal::from(lost).answer).await;
            }
            Err(error) => {
                tracing::warn!(%error, session = %session.id(), "could not keep a session alive");
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
                continue;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            mail = server.locks().has_mail(session) => {
                if let Err(error) = mail {
                    tracing::debug!(%error, "could not watch a session");
                    tokio::time::sleep(every).await;
                }
            }
        }
    }
}

async fn end(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Answer<LockAnswer>, Refusal> {
    let session = caller.session()?;
    server.locks().end(session).await?;
    server.outside().sessions.forget(session.id());
    Ok(Answer(Outcome::Ended, LockAnswer::new(Outcome::Ended, None)))
}

fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
