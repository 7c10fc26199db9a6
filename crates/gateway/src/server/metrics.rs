//! `GET /metrics`, for Prometheus.

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use bell_project::settings::MetricsAccess;
use http::header::CONTENT_TYPE;

use super::Server;

/// What is answered is OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The route, in the group of routes that need a key, unless the project lets everybody read it.
pub(crate) fn for_keys(server: &Server) -> Router<Server> {
    if is_open(server) { Router::new() } else { route() }
}

/// The route, where the project lets everybody read it.
pub(crate) fn open(server: &Server) -> Router<Server> {
    if is_open(server) { route() } else { Router::new() }
}

fn is_open(server: &Server) -> bool {
    server.control().loaded().settings.gateway.metrics == MetricsAccess::Open
}

fn route() -> Router<Server> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(server): State<Server>) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPEN_METRICS)], server.metrics().text().await)
}
