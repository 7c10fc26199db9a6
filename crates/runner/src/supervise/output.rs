//! Reading what the agent prints, for as long as anybody can print.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::now_ms;
use crate::logs::{Stream, Writer};

/// As much as a pipe holds.
const BUFFER_BYTES: usize = 64 * 1024;

/// A line that is not ended by then is shown as far as it has come.
const QUIET: Duration = Duration::from_millis(200);

/// Both pipes of an agent, and where their content goes.
pub(super) struct Pump<'a> {
    out: Option<pipe::Receiver>,
    err: Option<pipe::Receiver>,
    out_buffer: Vec<u8>,
    err_buffer: Vec<u8>,
    log: &'a mut Writer,
}

impl<'a> Pump<'a> {
    pub(super) fn new(out: pipe::Receiver, err: pipe::Receiver, log: &'a mut Writer) -> Self {
        let buffer = || vec![0; BUFFER_BYTES];
        Self { out: Some(out), err: Some(err), out_buffer: buffer(), err_buffer: buffer(), log }
    }

    /// Returns when nobody can print any more. Dropped half-way, it goes on where it was.
    pub(super) async fn run(&mut self) {
        while self.out.is_some() || self.err.is_some() {
            tokio::select! {
                length = read(self.out.as_mut(), &mut self.out_buffer), if self.out.is_some() => {
                    if length == 0 {
                        self.out = None;
                    }
                    self.log.take(now_ms(), Stream::Out, self.out_buffer.get(..length).unwrap_or_default());
                }
                length = read(self.err.as_mut(), &mut self.err_buffer), if self.err.is_some() => {
                    if length == 0 {
                        self.err = None;
                    }
                    self.log.take(now_ms(), Stream::Err, self.err_buffer.get(..length).unwrap_or_default());
                }
                () = sleep(QUIET), if self.log.has_pending() => self.log.flush(now_ms()),
            }
        }
    }

    /// Writes the last of it.
    pub(super) fn finish(self) {
        self.log.finish(now_ms());
    }
}

/// How much was read; nothing at the end, and when the pipe fails, which is an end too.
async fn read(from: Option<&mut pipe::Receiver>, buffer: &mut [u8]) -> usize {
    match from {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}
