//! Answers that go on: server-sent events.
//!
//! A stream has a task that says things and a body that carries them to its reader, with a few places between the two.
//! Whoever does not read holds up nothing but its own task, and is cut off after a while; so is everybody when the daemon
//! stops. A reader that comes back says where it was, so nothing is lost by a cut.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use http_body::Frame;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::{HEARTBEAT, STREAM_PLACES, STREAM_STALLS, STREAMS_MAX};
use crate::refusal::Refusal;

/// Somebody may have closed a stream by then.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The streams that are open. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Streams {
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Streams {
    /// None yet; all of them end with `stopping`.
    pub(crate) fn new(stopping: CancellationToken) -> Self {
        Self::with_places(STREAMS_MAX, stopping)
    }

    /// The same for so many.
    pub(crate) fn with_places(most: usize, stopping: CancellationToken) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), tasks: TaskTracker::new(), stopping }
    }

    /// An answer that says what `saying` says, until that returns, its reader is gone, or the daemon stops.
    pub(crate) fn open<F>(&self, saying: impl FnOnce(Outlet) -> F) -> Result<Response, Refusal>
    where
        F: Future<Output = Result<(), Gone>> + Send + 'static,
    {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refusal::limit(
                format!("could not open a stream: {STREAMS_MAX} are open, and that is the most"),
                "Close some, or ask without following.",
            )
            .after(AGAIN_AFTER)
        })?;
        let (sender, receiver) = mpsc::channel(STREAM_PLACES);
        let (outlet, closed) = (Outlet { sender: sender.clone() }, sender);
        let (saying, stopping) = (saying(outlet), self.stopping.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = closed.closed() => {}
                // Who is gone is told nothing more.
                _ = saying => {}
            }
        });
        Ok(respond(Flowing::new(receiver, place)))
    }
}

/// Nobody reads any more, or too slowly.
pub(crate) struct Gone;

/// Where a stream's task says things.
pub(crate) struct Outlet {
    sender: mpsc::Sender<Bytes>,
}

impl Outlet {
    /// Says only where a reader that comes back goes on.
    pub(crate) async fn mark(&self, id: &str) -> Result<(), Gone> {
        self.send(format!("id: {id}\n\n")).await
    }

    /// Says one thing: `name` is what kind it is, `id` where a reader that comes back goes on.
    pub(crate) async fn say(&self, name: &str, id: Option<&str>, data: &impl Serialize) -> Result<(), Gone> {
        // Numbers and text always have a JSON form, on one line.
        let json = serde_json::to_string(data).unwrap_or_default();
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.send(format!("event: {name}\n{id}data: {json}\n\n")).await
    }

    async fn send(&self, event: String) -> Result<(), Gone> {
        timeout(STREAM_STALLS, self.sender.send(event.into())).await.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}

/// The body of a stream. When nothing was said for a while it says so, which also shows whether the reader is there.
struct Flowing {
    events: mpsc::Receiver<Bytes>,
    heartbeat: Interval,
    has_begun: bool,
    _place: OwnedSemaphorePermit,
}

/// A comment, which readers skip.
const STILL_HERE: Bytes = Bytes::from_static(b": still here\n\n");

impl Flowing {
    fn new(events: mpsc::Receiver<Bytes>, place: OwnedSemaphorePermit) -> Self {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        Self { events, heartbeat, has_begun: false, _place: place }
    }
}

impl http_body::Body for Flowing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // Something is sent at once: some readers count themselves connected only then.
        if !std::mem::replace(&mut self.has_begun, true) {
            return Poll::Ready(Some(Ok(Frame::data(STILL_HERE))));
        }
        if let Poll::Ready(event) = self.events.poll_recv(context) {
            self.heartbeat.reset();
            return Poll::Ready(event.map(|event| Ok(Frame::data(event))));
        }
        self.heartbeat.poll_tick(context).map(|_| Some(Ok(Frame::data(STILL_HERE))))
    }
}

fn respond(flowing: Flowing) -> Response {
    let mut response = Response::new(Body::new(flowing));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Asks a proxy in front not to keep events back until there are many.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn next(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_says_what_it_has_to_say_and_that_it_is_there_meanwhile() {
        let streams = Streams::new(CancellationToken::new());
        let response = streams.open(|outlet| async move {
            outlet.say("a", Some("7"), &[1]).await?;
            tokio::time::sleep(HEARTBEAT * 2).await;
            outlet.say("b", None, &"two\nlines").await
        });
        let mut body = response.unwrap_or_else(|_| panic!("there is room")).into_body();
        let said = [
            ": still here\n\n",
            "event: a\nid: 7\ndata: [1]\n\n",
            ": still here\n\n",
            "event: b\ndata: \"two\\nlines\"\n\n",
        ];
        let mut heard = Vec::new();
        while let Some(text) = next(&mut body).await {
            heard.push(text);
        }
        // Two heartbeats in a row differ in nothing.
        heard.dedup();
        assert_eq!(heard, said);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_cut_off_and_gives_its_place_back() {
        let streams = Streams::new(CancellationToken::new());
        let response = streams.open(|outlet| async move {
            loop {
                outlet.say("more", None, &0).await?;
            }
        });
        let mut body = response.unwrap_or_else(|_| panic!("there is room")).into_body();
        tokio::time::sleep(STREAM_STALLS * 2).await;
        let mut count = 0;
        while next(&mut body).await.is_some() {
            count += 1;
        }
        assert_eq!(count, STREAM_PLACES + 1);
        drop(body);
        assert_eq!(streams.places.available_permits(), STREAMS_MAX);
    }

    #[tokio::test]
    async fn only_so_many_are_open_and_all_end_when_the_daemon_stops() {
        let stopping = CancellationToken::new();
        let streams = Streams::new(stopping.clone());
        let open = || streams.open(|_outlet| std::future::pending());
        let mut all: Vec<Response> = (0..STREAMS_MAX).filter_map(|_| open().ok()).collect();
        assert_eq!(all.len(), STREAMS_MAX);
        assert!(open().is_err());
        stopping.cancel();
        let mut body = all.remove(0).into_body();
        assert_eq!(next(&mut body).await.as_deref(), Some(": still here\n\n"));
        assert_eq!(next(&mut body).await, None);
    }
}
