//! What was told from outside, for operators: looking at it, and telling it again.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bell_api::ask::Nothing;
use bell_api::control::deliveries::{
    DeliveriesAnswer, DeliveriesQuery, DeliveryAnswer, DeliveryQuery, DeliveryShown, RedeliverRequest,
};
use bell_api::outcome::Outcome;

use super::Server;
use super::guard::Caller;
use super::question::{Named, Question};
use crate::body::Asked;
use crate::refusal::{Answer, Refusal};

type Answered<T> = Result<Answer<T>, Refusal>;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/v1/deliveries", get(list))
        .route("/v1/deliveries/{delivery}", get(show))
        .route("/v1/deliveries/{delivery}/replay", post(replay))
}

async fn list(
    State(server): State<Server>,
    Question(query): Question<DeliveriesQuery>,
) -> Answered<DeliveriesAnswer> {
    Ok(Answer(Outcome::Listed, server.control().deliveries(&query).await?))
}

async fn show(
    State(server): State<Server>,
    Named(id): Named,
    Question(query): Question<DeliveryQuery>,
) -> Answered<DeliveryShown> {
    Ok(Answer(Outcome::Listed, server.control().delivery(&id, query.source.as_deref()).await?))
}

async fn replay(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Question(Nothing {}): Question<Nothing>,
    Asked(request): Asked<RedeliverRequest>,
) -> Answered<DeliveryAnswer> {
    Ok(Answer(Outcome::Written, server.control().redeliver(&id, &request, &caller.who()).await?))
}
