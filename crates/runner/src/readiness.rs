//! Waiting on a descriptor without holding a thread up.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor whose reading is waited for.
#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may change their descriptor; an `OwnedFd` never does"
)]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
