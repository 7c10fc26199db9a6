//! The router of the daemon. Whoever adds a topic adds one line to the group that its routes belong to.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use super::guard::{self, Admitted};
use super::{
    Server, control, deliveries, events, health, locks, login, logs, mcp, metrics, openapi, sessions,
    webhooks,
};
use crate::routes::{nothing_here, wrong_method};

/// Every route, behind its checks.
pub fn routes(server: Server) -> Router {
    let behind = |admitted: Admitted, routes: Router<Server>| {
        let server = server.clone();
        routes.layer(from_fn(move |request, next| guard::admit(server.clone(), admitted, request, next)))
    };
    Router::new()
        .merge(open())
        .merge(metrics::open(&server))
        .merge(behind(Admitted::Keys, metrics::for_keys(&server)))
        .merge(behind(Admitted::Keys, for_keys()))
        .merge(behind(Admitted::Sessions, for_sessions()))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(server.clone(), guard::check))
        .with_state(server)
}

/// What needs no key, or has proofs of its own.
fn open() -> Router<Server> {
    health::open().merge(openapi::open()).merge(login::open()).merge(mcp::open()).merge(webhooks::open())
}

/// What needs an API key: any key for looking (GET), a full one for acting.
fn for_keys() -> Router<Server> {
    Router::new()
        .merge(control::routes())
        .merge(deliveries::routes())
        .merge(events::routes())
        .merge(login::for_keys())
        .merge(logs::routes())
}

/// What a session of a program outside of any run may do, and an API key too.
fn for_sessions() -> Router<Server> {
    sessions::routes().merge(locks::routes())
}
