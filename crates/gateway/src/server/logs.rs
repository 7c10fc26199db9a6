//! What a run printed, and goes on printing.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bell_api::control::logs::LogQuery;
use bell_control::follow::Following;
use http::HeaderMap;

use super::Server;
use super::question::{Named, Question};
use super::stream::{Gone, Outlet};
use crate::refusal::{Answer, Refusal};

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/v1/runs/{run}/logs", get(logs))
}

async fn logs(
    State(server): State<Server>,
    Named(run): Named,
    headers: HeaderMap,
    Question(mut query): Question<LogQuery>,
) -> Result<Response, Refusal> {
    if !query.follow {
        let answer = server.control().logs(&run, query).await?;
        return Ok(Answer(answer.outcome, answer).into_response());
    }
    if let Some(next) = last_heard(&headers)? {
        query.from = next;
        query.tail = None;
    }
    let following = server.control().follow_logs(&run, query).await?;
    server.streams().open(|outlet| follow(outlet, following))
}

/// Where a reader that comes back goes on.
fn last_heard(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else { return Ok(None) };
    let offset = id.to_str().ok().and_then(|id| id.parse().ok());
    offset.map(Some).ok_or_else(|| {
        Refusal::invalid(
            "could not go on there: Last-Event-ID is no offset",
            "Send the id of the last event, or say from= instead.",
        )
    })
}

async fn follow(outlet: Outlet, mut following: Following) -> Result<(), Gone> {
    // A log that can't be read ends the stream; who comes back is told why.
    while let Ok(Some(part)) = following.next().await {
        outlet.say("output", Some(&part.next.to_string()), &part).await?;
    }
    Ok(())
}
