//! A connection's bytes on their way: what comes in is read along ([`Framing`]), and a peer that takes nothing of what it
//! is sent is given up. What was read and not used can be put back.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, timeout};

use crate::framing::{Framing, Refused};
use crate::limits::{LEFT_OVER_BYTES_MAX, LEFT_OVER_SILENCE, LEFT_OVER_WITHIN, TAKEN_WITHIN};
use crate::parking::Parking;

/// What the parser gets in the place of what it must not see: no part of any head or chunk can have it, so it answers 400.
const POISON: &[u8] = b"\0";

/// How much of what nobody will answer is read at once.
const LEFT_OVER_BYTES: usize = 16 << 10;

/// A stream that is watched.
pub(crate) struct Wire<S> {
    stream: S,
    framing: Framing,
    has_refused: bool,
    /// What is read first.
    put_back: Vec<u8>,
    /// Set while the peer takes nothing.
    patience: Option<Pin<Box<Sleep>>>,
    parking: Parking,
}

impl<S> Wire<S> {
    /// Watches a stream from its first byte, and says in `parking` whether something is on its way out.
    pub(crate) fn new(stream: S, parking: Parking) -> Self {
        let framing = Framing::default();
        Self { stream, framing, has_refused: false, put_back: Vec::new(), patience: None, parking }
    }

    /// Puts bytes before those that were put back before. They are not looked at again.
    pub(crate) fn put_back(&mut self, bytes: &[u8]) {
        self.put_back.splice(..0, bytes.iter().copied());
    }

    /// Whether there is something to be read that came already.
    pub(crate) fn has_more(&self) -> bool {
        !self.put_back.is_empty()
    }

    /// What came of an attempt to send; an error once the peer has taken nothing for too long.
    fn sent<T>(&mut self, cx: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.parking.set_stuck(sent.is_pending());
        if sent.is_ready() {
            self.patience = None;
            return sent;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(TAKEN_WITHIN)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Closes the connection. A peer that still sends the body of a request that was refused is read first: it would
    /// find the connection broken, and never read the refusal.
    pub(crate) async fn close(mut self) {
        // The peer learns that nothing more comes, whether or not it has sent everything.
        let _ = self.shutdown().await;
        let _ = timeout(LEFT_OVER_WITHIN, read_left_over(&mut self.stream)).await;
    }
}

/// Returns when the peer has closed its side too, sends nothing for a moment, or has sent too much.
async fn read_left_over(stream: &mut (impl AsyncRead + Unpin)) {
    let mut left_over = stream.take(LEFT_OVER_BYTES_MAX);
    let mut bytes = vec![0; LEFT_OVER_BYTES];
    while let Ok(Ok(1..)) = timeout(LEFT_OVER_SILENCE, left_over.read(&mut bytes)).await {}
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_more() {
            let count = this.put_back.len().min(buf.remaining());
            buf.put_slice(&this.put_back[..count]);
            this.put_back.drain(..count);
            this.put_back.shrink_to_fit();
            return Poll::Ready(Ok(()));
        }
        if this.has_refused {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        if let Err(Refused(passed)) = this.framing.take(&buf.filled()[before..]) {
            this.has_refused = true;
            buf.set_filled(before + passed);
            buf.put_slice(POISON);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.sent(cx, sent)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.sent(cx, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.sent(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (here, mut there) = tokio::io::duplex(16);
        let mut wire = Wire::new(here, Parking::default());
        wire.write_all(&[0; 16]).await.unwrap();
        let stuck = wire.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
        there.read_exact(&mut [0; 16]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_little_now_and_then_is_not() {
        let (here, mut there) = tokio::io::duplex(16);
        let mut wire = Wire::new(here, Parking::default());
        let slow = async {
            let mut taken = [0; 8];
            for _ in 0..10 {
                tokio::time::sleep(TAKEN_WITHIN / 2).await;
                there.read_exact(&mut taken).await.unwrap();
            }
        };
        let (sent, ()) = tokio::join!(wire.write_all(&[0; 80]), slow);
        sent.unwrap();
    }

    #[tokio::test]
    async fn what_is_put_back_is_read_first_and_not_judged_again() {
        let (here, mut there) = tokio::io::duplex(1_024);
        there.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        drop(there);
        let mut wire = Wire::new(here, Parking::default());
        let mut begun = [0; 6];
        wire.read_exact(&mut begun).await.unwrap();
        wire.put_back(&begun);
        wire.put_back(b"\n");
        let mut seen = Vec::new();
        wire.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, b"\nGET / HTTP/1.1\r\n\r\n");
    }

    #[tokio::test]
    async fn what_is_refused_reaches_the_parser_as_what_no_parser_takes() {
        let (here, mut there) = tokio::io::duplex(1_024);
        there.write_all(b"GET / HTTP/1.1\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut seen = Vec::new();
        Wire::new(here, Parking::default()).read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, b"GET / HTTP/1.1\0");
    }
}
