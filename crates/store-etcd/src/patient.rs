//! What is below a connection of HTTP/2, and answers the server's pings a little later.
//!
//! etcd's server measures what a connection can carry: behind a request it sends a ping, and the next one with the
//! first request after that was answered. For requests that are answered within a millisecond that is a ping each:
//! both ends write, read and wake up once more for it. While one is open it sends no other. So the answer is held
//! back, and there is one ping in [`HOLD`]. HTTP/2 wants pings answered, rather soon than late, and sets no time.
//!
//! An answer must not get into the middle of what else is sent. Whoever speaks HTTP/2 above this flushes when it has
//! written whole frames, and only then: there, and nowhere else, an answer is taken out, or put back in.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long an answer is held back. Many times what a request takes, and far below the 20 s after which a server gives
/// up a connection that does not answer, or the few seconds that an operator may have made of them.
const HOLD: Duration = Duration::from_millis(100);

/// How the answer to a ping begins: eight bytes, a ping, an answer, of the connection.
const PONG: [u8; 9] = [0, 0, 8, 6, 1, 0, 0, 0, 0];
const PONG_BYTES: usize = PONG.len() + 8;

/// A stream of bytes whose answers to pings wait.
pub(crate) struct Patient<T> {
    stream: T,
    pong: Option<Pong>,
    /// Everything written so far was whole frames.
    is_between_frames: bool,
}

/// An answer that waits.
struct Pong {
    frame: [u8; PONG_BYTES],
    written: usize,
    due: Pin<Box<Sleep>>,
}

impl<T: AsyncWrite + Unpin> Patient<T> {
    /// Nothing has been written to the stream yet.
    pub(crate) fn new(stream: T) -> Self {
        Self { stream, pong: None, is_between_frames: true }
    }

    /// Whether this was an answer, and nothing else, which goes later. One waits at a time.
    fn holds(&mut self, bytes: &[u8]) -> bool {
        let is_pong = self.is_between_frames && bytes.starts_with(&PONG);
        let Some(frame) = bytes.try_into().ok().filter(|_| is_pong && self.pong.is_none()) else {
            return false;
        };
        self.pong = Some(Pong { frame, written: 0, due: Box::pin(sleep(HOLD)) });
        true
    }

    /// Sends all of the answer that waits. Between frames only, or if some of it was sent before.
    fn send_pong(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(pong) = &mut self.pong {
            let rest = &pong.frame[pong.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => pong.written += written,
            }
            if pong.written == PONG_BYTES {
                self.pong = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is left of an answer that was sent in part.
    fn end_pong(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_begun = self.pong.as_ref().is_some_and(|pong| pong.written > 0);
        if is_begun { self.send_pong(context) } else { Poll::Ready(Ok(())) }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.end_pong(context))?;
        if let [only] = pieces
            && self.holds(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        self.is_between_frames = false;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_between_frames = true;
        // Whoever flushes is woken up when the answer is due, and flushes again.
        let is_due = self.pong.as_mut().is_some_and(|pong| pong.due.as_mut().poll(context).is_ready());
        ready!(if is_due { self.send_pong(context) } else { self.end_pong(context) })?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use h2::Ping;
    use http::{Request, Response};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    const FRAME: [u8; PONG_BYTES] = *b"\0\0\x08\x06\x01\0\0\0\0answered";

    /// What arrives, up to so many bytes, within a minute of a clock that moves on when everybody waits.
    async fn arrived(mut stream: DuplexStream, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        timeout(Duration::from_secs(60), stream.read_exact(&mut all)).await.expect("it arrives").unwrap();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_is_answered_after_a_while_and_no_request_waits_for_that() {
        let (ours, theirs) = duplex(1 << 16);
        let serving = async {
            let mut connection = h2::server::handshake(theirs).await.unwrap();
            let ping = connection.ping_pong().unwrap();
            tokio::spawn(async move {
                while let Some(Ok((_, mut answer))) = connection.accept().await {
                    answer.send_response(Response::new(()), true).unwrap();
                }
            });
            ping
        };
        let (mut ping, asking) = tokio::join!(serving, h2::client::handshake(Patient::new(ours)));
        let (mut asking, connection) = asking.unwrap();
        tokio::spawn(connection);
        // By then what opens a connection was said; an answer beside other frames would go with them.
        asking.send_request(Request::new(()), true).unwrap().0.await.unwrap();
        let begun = Instant::now();
        let ponged = async {
            ping.ping(Ping::opaque()).await.unwrap();
            begun.elapsed()
        };
        let answered = async {
            for _ in 0..3 {
                asking.send_request(Request::new(()), true).unwrap().0.await.unwrap();
            }
            begun.elapsed()
        };
        let both = async { tokio::join!(ponged, answered) };
        let (ponged, answered) = timeout(Duration::from_secs(60), both).await.expect("both are answered");
        assert!(answered < HOLD, "requests took {answered:?}");
        assert!(ponged >= HOLD && ponged < 2 * HOLD, "the answer took {ponged:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_looks_like_an_answer_inside_a_frame_goes_as_it_is() {
        let (ours, theirs) = duplex(1 << 10);
        let mut ours = Patient::new(ours);
        ours.write_all(b"the head of a frame").await.unwrap();
        ours.write_all(&FRAME).await.unwrap();
        assert_eq!(arrived(theirs, 19 + PONG_BYTES).await, [&b"the head of a frame"[..], &FRAME].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_waits_is_overtaken_by_frames_and_by_another_answer() {
        let (ours, theirs) = duplex(1 << 10);
        let mut ours = Patient::new(ours);
        ours.write_all(&FRAME).await.unwrap();
        ours.flush().await.unwrap();
        let other = *b"\0\0\x08\x06\x01\0\0\0\0another.";
        for frame in [&other[..], b"a frame"] {
            ours.write_all(frame).await.unwrap();
            ours.flush().await.unwrap();
        }
        tokio::time::advance(HOLD).await;
        ours.flush().await.unwrap();
        let expected = [&other[..], b"a frame", &FRAME].concat();
        assert_eq!(arrived(theirs, expected.len()).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_sent_in_part_is_ended_before_anything_else_goes() {
        let (ours, theirs) = duplex(PONG_BYTES / 2);
        let mut ours = Patient::new(ours);
        ours.write_all(&FRAME).await.unwrap();
        tokio::time::advance(HOLD).await;
        let flushed = std::future::poll_fn(|context| {
            Poll::Ready(Pin::new(&mut ours).poll_flush(context).map(|flushed| flushed.is_ok()))
        });
        assert_eq!(flushed.await, Poll::Pending, "there is room for a half of it");
        let expected = [&FRAME[..], b"a frame"].concat();
        let (written, arrived) = tokio::join!(ours.write_all(b"a frame"), arrived(theirs, expected.len()));
        written.unwrap();
        assert_eq!(arrived, expected);
    }
}
