//! A connection without encryption that sends a request in one piece.
//!
//! The client's own way hands a request on through three tasks, and sends its head, its message and its end each by
//! itself; the server wakes up for each. For a request that is answered within a millisecond that is a good part of
//! all it costs. Here the task that asks hands over all of it at once. For single requests only, not for streams.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use etcd_client::Channel;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri, Version};
use http_body::{Body as _, Frame};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

use crate::patient::Patient;

/// What the other end may send before we have taken it in: a page of usual records, and some of those.
const WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Whether a connection is gone.
#[derive(Clone, Default)]
pub(crate) struct Lost(Arc<AtomicBool>);

impl Lost {
    pub(crate) fn is_lost(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Nobody is to use it any more.
    pub(crate) fn lose(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The request was surely not sent, or not to its end: the connection was gone before.
#[derive(Debug)]
pub(crate) struct NotSent(h2::Error);

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection was lost: {}", self.0)
    }
}

impl std::error::Error for NotSent {}

/// Connects to `host:port`, from this executor. It is tried after every so much silence, and may take so long to answer.
///
/// # Errors
/// That nobody listens there, or does not speak HTTP/2.
pub(crate) async fn connect(
    endpoint: &str,
    keep_alive: (Duration, Duration),
) -> Result<(Channel, Lost), BoxError> {
    let authority: Authority = endpoint.parse()?;
    let stream = TcpStream::connect(endpoint).await?;
    stream.set_nodelay(true)?;
    let mut settings = Builder::new();
    settings.initial_window_size(WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
    let (sender, mut connection) = settings.handshake::<_, Bytes>(Patient::new(stream)).await?;
    let lost = Lost::default();
    let (ending, ping) = (lost.clone(), connection.ping_pong());
    // Ends with the connection: when nobody can send any more, or the other end is gone.
    drop(tokio::spawn(async move {
        tokio::select! {
            _ = connection => {}
            () = silent(ping, keep_alive) => {}
        }
        ending.lose();
    }));
    let send = move |request| send(sender.clone(), authority.clone(), request);
    Ok((Channel::Custom(BoxCloneSyncService::new(tower::service_fn(send))), lost))
}

/// Returns when the other end does not answer.
async fn silent(ping: Option<PingPong>, (every, limit): (Duration, Duration)) {
    let Some(mut ping) = ping else { return std::future::pending().await };
    loop {
        sleep(every).await;
        if !matches!(timeout(limit, ping.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

async fn send(
    sender: SendRequest<Bytes>,
    authority: Authority,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let (mut head, body) = request.into_parts();
    head.version = Version::HTTP_2;
    let mut uri = head.uri.into_parts();
    (uri.scheme, uri.authority) = (Some(Scheme::HTTP), Some(authority));
    head.uri = Uri::from_parts(uri)?;
    let message = whole(body).await?;
    let mut sender = sender.ready().await.map_err(NotSent)?;
    let (answer, mut stream) = sender.send_request(Request::from_parts(head, ()), false).map_err(NotSent)?;
    // Without its end nobody carries it out.
    stream.send_data(message, true).map_err(NotSent)?;
    Ok(answer.await?.map(|stream| Body::new(Answer { stream, has_data: true })))
}

/// All of a message that is to be sent.
async fn whole(mut body: Body) -> Result<Bytes, BoxError> {
    let mut all = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        match first.take() {
            None if all.is_empty() => first = Some(data),
            // Nearly always there is one piece, which needs no copy.
            None => all.extend_from_slice(&data),
            Some(first) => {
                all.extend_from_slice(&first);
                all.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| all.freeze()))
}

/// What the server says.
struct Answer {
    stream: RecvStream,
    has_data: bool,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if self.has_data {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(data)) => {
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.has_data = false,
            }
        }
        Poll::Ready(
            ready!(self.stream.poll_trailers(context))
                .map(|trailers| trailers.map(Frame::trailers))
                .transpose(),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}
