//! A connection on which a request leaves from the thread that asks.
//!
//! The connection of the redis crate hands every request to a task of its own. Here whoever asks writes to the socket,
//! and one task reads the answers and wakes whoever asked: one change of tasks for a request instead of two. It speaks
//! RESP2, in which nothing comes unasked, so that answers come in the order of requests; and no TLS.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::address::Host;
use crate::request::Request;
use crate::resp;

/// What is read at once at the most. Larger answers take several reads, and grow the buffer.
const READ_BYTES: usize = 16 << 10;

/// A connection. Dropped, it is closed.
pub(crate) struct Line {
    ends: Arc<Ends>,
    reading: AbortHandle,
}

struct Ends {
    socket: OwnedWriteHalf,
    state: Mutex<State>,
    /// The socket took less than it was given.
    stalled: Notify,
}

struct State {
    is_open: bool,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
    /// Those who asked, in the order in which they are answered.
    waiting: VecDeque<oneshot::Sender<RedisResult<Value>>>,
}

impl Line {
    /// Connects from this runtime, which reads from then on. When the connection is gone, that is told to `pushes`.
    pub(crate) async fn open(host: &Host, pushes: UnboundedSender<PushInfo>) -> RedisResult<Self> {
        let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
        // Requests are small and many, and none should wait for the answer to the one before.
        stream.set_nodelay(true)?;
        let (reader, socket) = stream.into_split();
        let state = State { is_open: true, unsent: Vec::new(), waiting: VecDeque::new() };
        let ends = Arc::new(Ends { socket, state: Mutex::new(state), stalled: Notify::new() });
        let reading = tokio::spawn(Arc::clone(&ends).serve(reader, pushes)).abort_handle();
        Ok(Self { ends, reading })
    }

    /// Asks, and waits for the answer. Dropped half-way, it was asked all the same.
    pub(crate) async fn ask(&self, request: &mut Request) -> RedisResult<Value> {
        let answered = self.ends.send(request.wire());
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Asks all of these at once.
    pub(crate) async fn ask_all(&self, requests: &mut [Request]) -> RedisResult<Vec<Value>> {
        let asked: Vec<_> = requests.iter_mut().map(|request| self.ends.send(request.wire())).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for answered in asked {
            answers.push(answered.await.unwrap_or_else(|_| Err(closed()))?);
        }
        Ok(answers)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.reading.abort();
        self.ends.close();
    }
}

impl Ends {
    fn send(&self, request: &[u8]) -> oneshot::Receiver<RedisResult<Value>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        // Otherwise the answer is dropped, which whoever asked notices.
        if state.is_open {
            state.waiting.push_back(answer);
            if state.unsent.is_empty() {
                let sent = self.write(request);
                state.keep(sent.map(|count| &request[count..]));
                if !state.unsent.is_empty() {
                    self.stalled.notify_one();
                }
            } else {
                state.unsent.extend_from_slice(request);
            }
        }
        answered
    }

    /// How many of these bytes the socket took.
    fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.socket.try_write(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    /// Reads until the connection or the last who uses it is gone.
    async fn serve(self: Arc<Self>, mut reader: OwnedReadHalf, pushes: UnboundedSender<PushInfo>) {
        let (mut buffer, mut filled) = (vec![0; READ_BYTES], 0);
        loop {
            let is_stalled = !self.lock().unsent.is_empty();
            tokio::select! {
                read = reader.read(&mut buffer[filled..]) => match read {
                    Ok(count) if count > 0 => filled += count,
                    _ => break,
                },
                _ = self.socket.writable(), if is_stalled => {
                    let mut state = self.lock();
                    let unsent = std::mem::take(&mut state.unsent);
                    let sent = self.write(&unsent);
                    state.keep(sent.map(|count| &unsent[count..]));
                    continue;
                }
                () = self.stalled.notified(), if !is_stalled => continue,
            }
            match self.answer(&buffer[..filled]) {
                Some(used) => {
                    buffer.copy_within(used..filled, 0);
                    filled -= used;
                }
                None => break,
            }
            if filled == buffer.len() {
                buffer.resize(2 * filled, 0);
            }
        }
        self.close();
        // If nobody listens any more, nobody uses it.
        drop(pushes.send(PushInfo { kind: PushKind::Disconnection, data: Vec::new() }));
    }

    /// Answers those whose answer is there; how many bytes that were. `None`: it makes no sense.
    fn answer(&self, mut bytes: &[u8]) -> Option<usize> {
        let before = bytes.len();
        while let Some((value, rest)) = resp::value(bytes).ok()? {
            let asked = self.lock().waiting.pop_front()?;
            // Whoever stopped waiting needs no answer.
            drop(asked.send(value));
            bytes = rest;
        }
        Some(before - bytes.len())
    }

    fn close(&self) {
        self.lock().close();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic half-way runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps what is left to send.
    fn keep(&mut self, left: std::io::Result<&[u8]>) {
        match left {
            Ok(left) => self.unsent.extend_from_slice(left),
            Err(_) => self.close(),
        }
    }

    fn close(&mut self) {
        self.is_open = false;
        self.unsent.clear();
        // Dropped without an answer.
        self.waiting.clear();
    }
}

fn closed() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()
}
