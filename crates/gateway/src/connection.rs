//! One connection: served request by request, and put aside while one of them waits.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::response::Response;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use crate::limits::{HEAD_BYTES_MAX, HEAD_WITHIN};
use crate::parking::{Parking, ToCome};
use crate::patience::Patience;
use crate::serve::Peer;
use crate::server::routes::Routes;
use crate::visit::Visit;
use crate::wire::Wire;

/// What a parser is given in the place of a request that waited, so that it writes the answer.
const STAND_IN: &[u8] = b"POST / HTTP/1.1\r\nhost: waited\r\ncontent-length: 0\r\n\r\n";

/// How much is read of what comes while a request waits: one byte would do to see that somebody is there.
const PEEKED_BYTES: usize = 16;

/// How long a connection is kept after `closing` for one more request. Whoever is at work sends its next request at any moment, and if that
/// crossed the end of the connection, it could not know whether it was carried out. It is answered instead, with the word
/// that the connection ends here. A second is long for whoever is at work, and short for who waits for the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves a connection until it ends, or until `closing` and what was asked for is answered.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: Peer,
    routes: Routes,
    closing: CancellationToken,
) {
    let parking = Parking::default();
    // In a box: it goes to a parser and comes back, and each place on its way would be as large.
    let mut wire = Box::new(Wire::new(stream, parking.clone()));
    loop {
        // In a box, so that what it takes is given back while the connection is put aside.
        let served = Box::pin(serve_until_one_waits(wire, peer, &routes, &parking, &closing)).await;
        let Some((returned, mut to_come)) = served else { return };
        wire = returned;
        let Some(answer) = wait(&mut wire, &mut to_come).await else { return };
        drop(to_come);
        parking.has_come(answer);
        wire.put_back(STAND_IN);
    }
}

/// How far the end of a connection has come.
enum Farewell {
    NotYet,
    /// What comes within this time is still answered. In a box: most connections never get here.
    OneMore(Pin<Box<Sleep>>),
    Over,
}

impl Farewell {
    /// Returns when it is to go on.
    async fn next(&mut self, closing: &CancellationToken) {
        match self {
            Self::NotYet => closing.cancelled().await,
            Self::OneMore(time) => time.await,
            Self::Over => std::future::pending().await,
        }
    }
}

/// Serves requests until the connection ends, or one has to wait: then the stream, and the answer that is to come.
async fn serve_until_one_waits<S: AsyncRead + AsyncWrite + Unpin + Send>(
    wire: Box<Wire<S>>,
    peer: Peer,
    routes: &Routes,
    parking: &Parking,
    closing: &CancellationToken,
) -> Option<(Box<Wire<S>>, ToCome)> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    let patience = Patience::default();
    let is_closing = AtomicBool::new(false);
    let answer = service_fn(async |request| {
        let mut response = answer(request, routes, peer, parking, &patience).await;
        if is_closing.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok::<_, Infallible>(response)
    });
    let mut served = http.serve_connection(TokioIo::new(wire), answer);
    let mut farewell = Farewell::NotYet;
    let to_come = loop {
        let progress = std::future::poll_fn(|cx| match Pin::new(&mut served).poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Err(ended)),
            // It has just tried to send everything that there was to send.
            Poll::Pending => parking.take().map_or(Poll::Pending, |to_come| Poll::Ready(Ok(to_come))),
        });
        tokio::select! {
            biased;
            progress = progress => break progress,
            () = farewell.next(closing) => match farewell {
                Farewell::NotYet => {
                    is_closing.store(true, Ordering::Relaxed);
                    farewell = Farewell::OneMore(Box::pin(sleep(FAREWELL)));
                }
                Farewell::OneMore(_) | Farewell::Over => {
                    farewell = Farewell::Over;
                    Pin::new(&mut served).graceful_shutdown();
                }
            }
        }
    };
    match to_come {
        Ok(to_come) => {
            let parts = served.into_parts();
            let mut wire = parts.io.into_inner();
            wire.put_back(&parts.read_buf);
            Some((wire, to_come))
        }
        Err(ended) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            served.into_parts().io.into_inner().close().await;
            None
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    routes: &Routes,
    peer: Peer,
    parking: &Parking,
    patience: &Patience,
) -> Response {
    if let Some(answer) = parking.answer() {
        return answer;
    }
    let may_wait_aside = request.version() == Version::HTTP_11 && !request.headers().contains_key(CONNECTION);
    let parking_if_any = may_wait_aside.then(|| parking.clone());
    let visit = Visit { peer, parking: parking_if_any, patience: patience.clone() };
    let response = routes.answer(visit, request).await;
    if parking.is_taken() {
        // This is taken apart in a moment.
        return std::future::pending().await;
    }
    response
}

/// Waits for an answer; `None` if the peer goes meanwhile.
async fn wait<S: AsyncRead + Unpin>(wire: &mut Wire<S>, to_come: &mut ToCome) -> Option<Response> {
    tokio::select! {
        biased;
        answer = to_come.answer() => Some(answer),
        () = gone(wire) => None,
    }
}

/// Returns when the peer has gone. Whoever has sent the next request already is not read from, so this can't tell.
async fn gone<S: AsyncRead + Unpin>(wire: &mut Wire<S>) {
    if !wire.has_more() {
        let mut bytes = [0; PEEKED_BYTES];
        match wire.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(count) => wire.put_back(&bytes[..count]),
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use axum::body::Body;
    use axum::routing::{get, post};
    use axum::{Extension, Router};
    use tokio::io::{AsyncWriteExt, DuplexStream};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::limits::LEFT_OVER_SILENCE;

    const WAIT: &[u8] = b"POST /wait HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
    const NOW: &[u8] = b"GET /now HTTP/1.1\r\nhost: a\r\n\r\n";
    const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n";

    /// A connection to a server of three routes, of which one waits until it is told what to answer.
    struct Served {
        peer: DuplexStream,
        task: JoinHandle<()>,
        asked: Arc<Mutex<Option<oneshot::Sender<&'static str>>>>,
        closing: CancellationToken,
    }

    fn served() -> Served {
        let (peer, stream) = tokio::io::duplex(1_024);
        let asked = Arc::<Mutex<Option<_>>>::default();
        let asks = Arc::clone(&asked);
        let wait = move |parking: Option<Extension<Parking>>, _body: String| async move {
            let (sender, told) = oneshot::channel();
            *asks.lock().unwrap() = Some(sender);
            let answer = async move { Response::new(Body::from(told.await.unwrap_or("nobody"))) };
            match parking {
                Some(Extension(parking)) => parking.leave(answer),
                None => answer.await,
            }
        };
        let routes = Router::new()
            .route("/wait", post(wait))
            .route("/now", get(|| async { "now" }))
            .route("/large", get(|| async { "x".repeat(10_000) }));
        let closing = CancellationToken::new();
        let task = tokio::spawn(serve(stream, Peer::Socket, routes.into(), closing.clone()));
        Served { peer, task, asked, closing }
    }

    impl Served {
        async fn asked(&self) -> oneshot::Sender<&'static str> {
            loop {
                if let Some(sender) = self.asked.lock().unwrap().take() {
                    return sender;
                }
                tokio::task::yield_now().await;
            }
        }

        /// Reads until this has come.
        async fn read_until(&mut self, end: &str) -> String {
            let mut text = String::new();
            while !text.ends_with(end) {
                let mut byte = [0];
                self.peer.read_exact(&mut byte).await.unwrap();
                text.push(byte[0].into());
            }
            text
        }
    }

    /// Lets everything else go on for as long as it can.
    async fn settle() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waited_is_answered_and_the_next_one_too() {
        let mut served = served();
        for told in ["one", "two"] {
            served.peer.write_all(WAIT).await.unwrap();
            let sender = served.asked().await;
            settle().await;
            sender.send(told).unwrap();
            let answer = served.read_until(told).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("content-length: 3\r\n"));
        }
        served.peer.write_all(NOW).await.unwrap();
        served.read_until("now").await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_meanwhile_is_answered_afterwards() {
        let mut served = served();
        served.peer.write_all(&[WAIT, NOW].concat()).await.unwrap();
        let sender = served.asked().await;
        settle().await;
        served.peer.write_all(NOW).await.unwrap();
        settle().await;
        sender.send("told").unwrap();
        let all = served.read_until("now").await + &served.read_until("now").await;
        assert!(all.find("told") < all.find("now"), "{all}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_peer_that_has_gone() {
        let mut served = served();
        served.peer.write_all(WAIT).await.unwrap();
        let mut sender = served.asked().await;
        settle().await;
        drop(served.peer);
        sender.closed().await;
        served.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_does_not_cut_off_the_answer_before_it() {
        let mut served = served();
        served.peer.write_all(&[LARGE, WAIT].concat()).await.unwrap();
        served.read_until(&"x".repeat(10_000)).await;
        let sender = served.asked().await;
        settle().await;
        sender.send("told").unwrap();
        served.read_until("told").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_is_answered_before_its_connection_is_closed() {
        let mut served = served();
        served.peer.write_all(WAIT).await.unwrap();
        let sender = served.asked().await;
        settle().await;
        served.closing.cancel();
        settle().await;
        sender.send("told").unwrap();
        served.read_until("told").await;
        served.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_once_more_is_answered_and_told_that_the_connection_ends() {
        let mut served = served();
        served.peer.write_all(NOW).await.unwrap();
        assert!(!served.read_until("now").await.contains("connection: close\r\n"));
        served.closing.cancel();
        settle().await;
        served.peer.write_all(NOW).await.unwrap();
        assert!(served.read_until("now").await.contains("connection: close\r\n"));
        served.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_after_a_while() {
        let served = served();
        served.closing.cancel();
        settle().await;
        assert!(!served.task.is_finished());
        tokio::time::timeout(FAREWELL + LEFT_OVER_SILENCE, served.task).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_wants_its_connection_closed_afterwards_waits_in_place() {
        let mut served = served();
        let wait = String::from_utf8_lossy(WAIT).replace("host: a", "host: a\r\nconnection: close");
        served.peer.write_all(wait.as_bytes()).await.unwrap();
        served.asked().await.send("told").unwrap();
        assert!(served.read_until("told").await.contains("connection: close\r\n"));
        served.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_body_is_read_to_its_end_before_the_connection_is_closed() {
        let mut served = served();
        let head = b"POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
        served.peer.write_all(head).await.unwrap();
        for _ in 0..100 {
            served.peer.write_all(&[b'x'; 1_000]).await.unwrap();
        }
        let mut answer = String::new();
        served.peer.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        drop(served.peer);
        served.task.await.unwrap();
    }
}
