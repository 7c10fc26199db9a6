//! Kernel locks on small files, asked for again and again rather than waited for in the kernel.
//!
//! A wait in the kernel has no end if the holder is stopped, and NFS clients take long to notice a release.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use bell_store::clock;
use rustix::io::Errno;

use crate::error::errno;

/// The first and the longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// How an attempt to lock a file ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// It is ours until the file is closed or unlocked.
    Yes,
    /// Somebody else has it.
    Busy,
    /// The file system has no locks.
    Unsupported,
}

/// Locks a file, trying for as long as `patience`.
///
/// # Errors
/// Those of the file system, apart from its having no locks.
pub fn lock(file: &File, patience: Duration) -> io::Result<Locked> {
    let began = clock::boottime();
    let mut pause = PAUSES.0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Locked::Yes),
            Err(TryLockError::WouldBlock) if clock::boottime() - began >= patience => {
                return Ok(Locked::Busy);
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
            Err(TryLockError::Error(error)) => match errno(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    return Ok(Locked::Unsupported);
                }
                _ => return Err(error),
            },
        }
    }
}
