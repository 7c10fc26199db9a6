//! Waiting with an end: for file events, for a while, or until told to stop.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Ends the waits of another thread, for good.
pub(super) struct Stop(OwnedFd);

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// The doorbell was dropped.
    Stopped,
    /// There is something to read.
    Ready,
    /// The time is over.
    TimedOut,
}

impl Stop {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(super) fn stop(&self) {
        // It fails only if the count is at its limit, and then the other thread has been told.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until `source` can be read, `timeout` is over, or it is time to stop.
    pub(super) fn wait(&self, source: Option<&OwnedFd>, timeout: Option<Duration>) -> io::Result<Woken> {
        let timeout = timeout.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let mut waited = vec![PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        waited.extend(source.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        match poll(&mut waited, timeout.as_ref()) {
            Ok(0) => Ok(Woken::TimedOut),
            Ok(_) if waited[0].revents().is_empty() => Ok(Woken::Ready),
            Ok(_) => Ok(Woken::Stopped),
            // A signal: as good as something to read, since reading never blocks.
            Err(Errno::INTR) => Ok(Woken::Ready),
            Err(error) => Err(error.into()),
        }
    }
}
