//! The router.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use bell_api::outcome::Outcome;
use http::StatusCode;

use crate::desk::Desk;
use crate::refusal::Refusal;
use crate::{auth, calls, counter, run, sessions};

/// The routes of a run.
pub fn routes(desk: Desk) -> Router {
    let only = |route: MethodRouter<Desk>| route.fallback(wrong_method);
    counter::routes::<Desk>()
        .route("/v1/sessions", only(post(sessions::make)))
        .route("/v1/sessions/end", only(post(sessions::end)))
        .route("/v1/run/status", only(post(run::status)))
        .route("/v1/run/return", only(post(run::give_back)))
        .route("/v1/run/rerun", only(post(run::rerun)))
        .route("/v1/run/exit", only(post(run::exit)))
        .route("/v1/runs/{run}", only(get(run::show)))
        .route("/v1/runs/{run}/logs", only(get(run::logs)))
        .route("/v1/calls", only(post(calls::call)))
        .route("/v1/calls/{job}", only(get(calls::check)))
        .fallback(nothing_here)
        .layer(from_fn_with_state(desk.clone(), auth::admit))
        .with_state(desk)
}

pub(crate) async fn nothing_here() -> Refusal {
    Refusal::new(
        Outcome::NotFound,
        "could not find what was asked for: there is nothing at this address",
        "The reference lists the addresses: docs/reference/agent-commands.md for a run, /openapi.json for the daemon.",
    )
}

pub(crate) async fn wrong_method() -> Refusal {
    Refusal::invalid("could not do this here: the method is wrong", "Look with GET, and act with POST.")
        .with(StatusCode::METHOD_NOT_ALLOWED)
}
