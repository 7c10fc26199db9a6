//! Somebody in between who passes everything on and counts what goes by.
//!
//! A round trip begins when a client sends something after the server has spoken last, on one connection. On
//! connections of HTTP/2 both sides also send each other things that nobody waits for, so there every message
//! that a client sends counts instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::contender::Engine;

/// Passes on and counts. Dropped, it takes no more connections.
pub(super) struct Wire {
    pub(super) port: u16,
    counters: Arc<Counters>,
    listening: JoinHandle<()>,
}

#[derive(Default)]
struct Counters {
    trips: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// What has gone by.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Passed {
    pub(super) trips: u64,
    /// Bytes from clients to the server.
    pub(super) sent: u64,
    /// Bytes from the server to clients.
    pub(super) received: u64,
}

impl Passed {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            trips: self.trips - earlier.trips,
            sent: self.sent - earlier.sent,
            received: self.received - earlier.received,
        }
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self {
            trips: self.trips + more.trips,
            sent: self.sent + more.sent,
            received: self.received + more.received,
        }
    }
}

impl Wire {
    /// In front of the server of this kind on this port.
    pub(super) async fn before(engine: Engine, port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let own_port = listener.local_addr()?.port();
        let counters = Arc::new(Counters::default());
        let counting = Arc::clone(&counters);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                // Each direction ends with its connection.
                pass_both(client, server, engine, &counting);
            }
        });
        Ok(Self { port: own_port, counters, listening })
    }

    pub(super) fn passed(&self) -> Passed {
        let Counters { trips, sent, received } = &*self.counters;
        let [trips, sent, received] = [trips, sent, received].map(|count| count.load(Ordering::Relaxed));
        Passed { trips, sent, received }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn pass_both(client: TcpStream, server: TcpStream, engine: Engine, counters: &Arc<Counters>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let server_spoke_last = Arc::new(AtomicBool::new(true));
    let (counting, spoke) = (Arc::clone(counters), Arc::clone(&server_spoke_last));
    let mut messages = Messages::default();
    let count = move |bytes: &[u8]| {
        counting.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let is_turn = spoke.swap(false, Ordering::Relaxed);
        let trips = match engine {
            Engine::Redis | Engine::Postgres => u64::from(is_turn),
            Engine::Etcd => messages.count(bytes),
        };
        counting.trips.fetch_add(trips, Ordering::Relaxed);
    };
    drop(tokio::spawn(pass(from_client, to_server, count)));
    let counting = Arc::clone(counters);
    let count = move |bytes: &[u8]| {
        counting.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        server_spoke_last.store(true, Ordering::Relaxed);
    };
    drop(tokio::spawn(pass(from_server, to_client, count)));
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut count: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..length];
        // Before it is passed on: the answer must not be faster than the count.
        count(bytes);
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// What a client of HTTP/2 says before its first frame.
const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;
const DATA: u8 = 0;

/// Finds the frames with data in what a client of HTTP/2 sends. Each is a message of gRPC, as long as
/// messages are small.
struct Messages {
    /// Bytes to go until the next header.
    skip: usize,
    header: Vec<u8>,
}

impl Default for Messages {
    fn default() -> Self {
        Self { skip: PREFACE_BYTES, header: Vec::with_capacity(HEADER_BYTES) }
    }
}

impl Messages {
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut messages = 0;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEADER_BYTES - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let [a, b, c, kind, ..] = self.header[..]
                && self.header.len() == HEADER_BYTES
            {
                self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                messages += u64::from(kind == DATA && self.skip > 0);
                self.header.clear();
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_with_data_are_found_however_they_are_cut() {
        let headers = [&[0, 0, 3, 1, 4, 0, 0, 0, 1][..], b"abc"].concat();
        let data = [&[0, 1, 0, 0, 0, 0, 0, 0, 1][..], &[7; 256]].concat();
        let end = [0, 0, 0, 0, 1, 0, 0, 0, 1];
        let all = [&[b'x'; PREFACE_BYTES][..], &headers, &data, &end, &headers, &data].concat();
        for size in [1, 2, 7, 100, all.len()] {
            let mut messages = Messages::default();
            let found: u64 = all.chunks(size).map(|chunk| messages.count(chunk)).sum();
            assert_eq!(found, 2, "in pieces of {size}");
        }
    }

    #[tokio::test]
    async fn a_question_and_its_answer_are_one_trip_in_however_many_pieces() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = Wire::before(Engine::Redis, server.local_addr().unwrap().port()).await.unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", wire.port)).await.unwrap();
        let (mut served, _) = server.accept().await.unwrap();
        let mut buffer = [0; 3];
        for _ in 0..2 {
            for piece in [&b"a"[..], b"bc"] {
                client.write_all(piece).await.unwrap();
                served.read_exact(&mut buffer[..piece.len()]).await.unwrap();
            }
            for piece in [&b"1"[..], b"2"] {
                served.write_all(piece).await.unwrap();
                client.read_exact(&mut buffer[..1]).await.unwrap();
            }
        }
        assert_eq!(wire.passed(), Passed { trips: 2, sent: 6, received: 4 });
    }
}
