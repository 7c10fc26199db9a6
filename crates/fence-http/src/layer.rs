//! The middleware: lets a request through if its fence is not older than any that its resource has seen.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use bell_api::outcome::Outcome;
use bell_core::key::{Key, KeyError};
use bell_core::lock::Fence;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{Either, Full};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;

use crate::body::{self, BoxError};
use crate::header;
use crate::refusal::Refusal;
use crate::register::{Register, Turn};
use crate::rule::{self, Target};

/// Bytes in the body of a guarded request, unless told otherwise. Each is kept in memory until its turn comes; this
/// is what axum takes by default too.
pub const BODY_BYTES_MAX: usize = 2 << 20;

/// A body as it came, or one that was read or written here.
pub type GuardedBody<B> = Either<B, Full<Bytes>>;

type Rule = Arc<dyn Fn(&Parts) -> Result<Target, KeyError> + Send + Sync>;

/// Puts [`FenceService`] around a service.
#[derive(Clone)]
pub struct FenceLayer {
    register: Register,
    rule: Rule,
    body_bytes_max: usize,
}

impl FenceLayer {
    /// Guards whatever could change something, by path ([`rule::by_path`]).
    pub fn new(register: Register) -> Self {
        Self { register, rule: Arc::new(rule::by_path), body_bytes_max: BODY_BYTES_MAX }
    }

    /// Guards what this rule says. It looks at a request as the service will see it; in a nested router that is
    /// without the prefix.
    #[must_use]
    pub fn rule(mut self, rule: impl Fn(&Parts) -> Result<Target, KeyError> + Send + Sync + 'static) -> Self {
        self.rule = Arc::new(rule);
        self
    }

    /// Takes guarded requests with up to this many bytes.
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// What a request is about and the fence it carries; nothing, if it may pass without.
    fn look_at(&self, request: &Parts) -> Result<Option<(Key, Fence)>, Refusal> {
        match (self.rule)(request)? {
            Target::Open => Ok(None),
            Target::Guarded(key) => match header::fence(&request.headers) {
                Ok(fence) => Ok(Some((key, fence))),
                Err(error) => Err(Refusal::from(error).about(&key, None)),
            },
        }
    }

    async fn admit(&self, resource: &Key, fence: Fence) -> Result<Turn, Refusal> {
        self.register.admit(resource, fence).await.map_err(|error| {
            let refusal = Refusal::from(error).about(resource, Some(fence));
            let (outcome, seen) = (refusal.answer.outcome, refusal.answer.seen_fence.map(|seen| seen.0));
            tracing::warn!(%resource, fence = fence.0, seen, %outcome, "request not let in");
            refusal
        })
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> FenceService<S> {
        FenceService { layer: self.clone(), inner }
    }
}

/// A service that stale requests don't reach.
///
/// A request that was let in has a [`Fence`] in its extensions, and is carried through even if its client goes away:
/// a service that is dropped in the middle of a write can't say whether the write will land. So a service that never
/// answers keeps its resource for ever; give it a time limit of its own where that could happen.
#[derive(Clone)]
pub struct FenceService<S> {
    layer: FenceLayer,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for FenceService<S>
where
    S: Service<Request<GuardedBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Send + 'static,
{
    type Response = Response<GuardedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready is this one, not its clone.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(guard(self.layer.clone(), inner, request))
    }
}

async fn guard<S, B, R>(
    layer: FenceLayer,
    mut inner: S,
    request: Request<B>,
) -> Result<Response<GuardedBody<R>>, S::Error>
where
    S: Service<Request<GuardedBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Send + 'static,
{
    let (mut parts, body) = request.into_parts();
    let (resource, fence) = match layer.look_at(&parts) {
        Ok(Some(guarded)) => guarded,
        Ok(None) => {
            let response = inner.call(Request::from_parts(parts, Either::Left(body))).await?;
            return Ok(response.map(Either::Left));
        }
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    // Before its turn: a client that stops in the middle of its request holds up nobody.
    let body = match body::whole(body, layer.body_bytes_max).await {
        Ok(body) => body,
        Err(refusal) => return Ok(refuse(&refusal.about(&resource, Some(fence)))),
    };
    let turn = match layer.admit(&resource, fence).await {
        Ok(turn) => turn,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    parts.extensions.insert(fence);
    let called = inner.call(Request::from_parts(parts, Either::Right(Full::new(body))));
    carry_through(called, turn).await.unwrap_or_else(|| Ok(refuse(&stopping().about(&resource, Some(fence)))))
}

/// Waits for the service in a task of its own, which keeps the turn until the service has answered. No answer if the
/// runtime is shut down before.
async fn carry_through<F, R, E>(called: F, turn: Turn) -> Option<Result<Response<GuardedBody<R>>, E>>
where
    F: Future<Output = Result<Response<R>, E>> + Send + 'static,
    R: Send + 'static,
    E: Send + 'static,
{
    let task = async move {
        let answered = called.await;
        drop(turn);
        answered
    };
    match tokio::spawn(task.in_current_span()).await {
        Ok(answered) => Some(answered.map(|response| response.map(Either::Left))),
        Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
        Err(_) => None,
    }
}

fn refuse<R>(refusal: &Refusal) -> Response<GuardedBody<R>> {
    refusal.response::<Full<Bytes>>().map(Either::Right)
}

fn stopping() -> Refusal {
    Refusal::new(
        Outcome::Unavailable,
        "could not wait for the service: it is being stopped; the write may have happened",
        "Send it again with the same fence.",
    )
}
