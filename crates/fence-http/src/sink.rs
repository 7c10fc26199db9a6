//! The reference sink: values that are stored with their fence in one commit, by HTTP.
//!
//! | request | answer |
//! | --- | --- |
//! | `PUT /fenced/{key}` with `X-Fence: N` | 200 if stored; 412 if a higher fence has been seen |
//! | `GET /fenced/{key}` | 200 with the value and its `X-Fence`; 404 if there is none |
//!
//! `{key}` is a key as for locks, percent-encoded: `deploy:%2F%2Fapi-prod`. Nobody is asked who they are.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::routing::get;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::store::StoreGuard;
use bell_store::Store;
use bell_store::info::Limits;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use tokio::net::TcpListener;

use crate::body;
use crate::header::{self, X_FENCE};
use crate::refusal::{Refusal, answer, status};

/// Bytes in a value: what any store takes, less the eight in front of it that hold the fence.
pub const VALUE_BYTES_MAX: usize = Limits::CONTRACT.value_bytes - size_of::<Fence>();

/// Records of the sink start with this; those of locks never do.
const PREFIX: &str = "fenced/";

/// How long a client may take to send or fetch what it has begun when the server is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// The routes of the sink, on this store.
pub fn sink(store: Arc<dyn Store>) -> Router {
    let route = get(read).put(write).fallback(wrong_method);
    Router::new()
        .route("/fenced/{key}", route)
        .fallback(nothing_here)
        .with_state(StoreGuard::new(store, PREFIX))
}

/// Serves the sink until `stop` is done. Then requests that have begun are finished, for a few seconds at most.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    store: Arc<dyn Store>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (told, mut hear) = tokio::sync::watch::channel(());
    let stop = async move {
        stop.await;
        drop(told);
    };
    let out_of_time = async move {
        // An error is what it waits for: the sender is gone.
        while hear.changed().await.is_ok() {}
        tokio::time::sleep(STOP_WITHIN).await;
    };
    tokio::select! {
        ended = axum::serve(listener, sink(store)).with_graceful_shutdown(stop) => ended,
        () = out_of_time => Ok(()),
    }
}

async fn write(
    State(values): State<StoreGuard>,
    key: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response<Body>, Refusal> {
    let key = named(key)?;
    let fence = header::fence(request.headers()).map_err(|error| Refusal::from(error).about(&key, None))?;
    let value = body::whole(request.into_body(), VALUE_BYTES_MAX).await;
    let value = value.map_err(|refusal| refusal.about(&key, Some(fence)))?;
    let written = values.write(key.as_str(), fence, &value).await;
    written.map_err(|error| Refusal::from(error).about(&key, Some(fence)))?;
    let written = LockAnswer { fence: Some(fence), ..LockAnswer::new(Outcome::Written, Some(key)) };
    Ok(answer(status(Outcome::Written), &written))
}

async fn read(
    State(values): State<StoreGuard>,
    key: Result<Path<String>, PathRejection>,
) -> Result<Response<Body>, Refusal> {
    let key = named(key)?;
    let found = values.read(key.as_str()).await.map_err(|error| Refusal::from(error).about(&key, None))?;
    let Some(found) = found else {
        let message = format!("could not find {key}: nothing has been written to it");
        return Err(Refusal::new(Outcome::NotFound, message, Outcome::NotFound.next()).about(&key, None));
    };
    let mut response = Response::new(Body::from(found.value));
    let headers = response.headers_mut();
    headers.insert(X_FENCE, HeaderValue::from(found.fence.0));
    // Whoever wrote it may not decide what a browser does with it.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

async fn nothing_here() -> Refusal {
    let message = "could not find what was asked for: there is nothing at this address";
    Refusal::new(Outcome::NotFound, message, "Use /fenced/KEY, with the key percent-encoded.")
}

async fn wrong_method() -> Refusal {
    let message = "could not do this to a fenced value: it can be written and read";
    Refusal::invalid(StatusCode::METHOD_NOT_ALLOWED, message, "Use PUT or GET.")
}

fn named(given: Result<Path<String>, PathRejection>) -> Result<Key, Refusal> {
    match given {
        Ok(Path(key)) => Ok(Key::parse(&key)?),
        Err(error) => Err(Refusal::new(
            Outcome::Invalid,
            format!("could not read the key: {error}"),
            "Percent-encode the key, as in /fenced/deploy:%2F%2Fapi-prod.",
        )),
    }
}
