//! The routes of the daemon. Whoever adds a topic adds one line to the group that it belongs to.

use axum::Router;
use axum::body::Body;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use hyper::body::Incoming;
use tower_service::Service;

use super::guard::{self, Admitted};
use super::quick::Act;
use super::{
    Server, control, deliveries, events, health, locks, login, logs, mcp, metrics, openapi, sessions,
    webhooks,
};
use crate::routes::{nothing_here, wrong_method};
use crate::visit::Visit;

/// Everything that the daemon answers.
#[derive(Clone)]
pub struct Routes {
    router: Router,
    /// Acts that there is a short way to are done here.
    server: Option<Server>,
}

/// Every route, behind its checks.
pub fn routes(server: Server) -> Routes {
    Routes { router: router(server.clone()), server: Some(server) }
}

impl From<Router> for Routes {
    fn from(router: Router) -> Self {
        Self { router, server: None }
    }
}

impl Routes {
    /// Answers a request.
    pub(crate) async fn answer(&self, visit: Visit, request: http::Request<Incoming>) -> Response {
        if let Some(server) = &self.server
            && let Some(act) = Act::of(&request)
        {
            // All ways are in boxes, so that a connection that is idle keeps no room for them.
            return Box::pin(act.answer(server.clone(), visit, request)).await;
        }
        if let Some(server) = self.server.as_ref().filter(|_| webhooks::is_delivery(&request)) {
            return Box::pin(webhooks::by_the_short_way(server.clone(), visit, request)).await;
        }
        Box::pin(self.by_the_router(visit, request)).await
    }

    async fn by_the_router(&self, visit: Visit, request: http::Request<Incoming>) -> Response {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(visit.peer);
        if let Some(parking) = visit.parking {
            request.extensions_mut().insert(parking);
        }
        match self.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

pub(crate) fn router(server: Server) -> Router {
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
