//! What another process is told to do, a line each, and what it answers.
//!
//! Moments are microseconds on this machine's boot clock, which all its processes share.

use std::path::PathBuf;
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use serde::{Deserialize, Serialize};

/// What answers start with, so that they are told from whatever else is printed.
pub(crate) const ANSWER: &str = "verify-worker: ";

/// What another process is to do.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Order {
    /// Open a store; everything else happens in this scope of it.
    Open { url: String, scope: String },
    /// Take a key and keep it alive.
    Hold { key: Key, ttl: Ttl },
    /// Take a key and leave it to its ttl.
    Take { key: Key, ttl: Ttl, wait: Duration },
    /// Look whether what it holds can still be relied on.
    Check,
    /// Write a guarded value this often with the fence of what it holds, without looking at the lease.
    Write { resource: String, times: u32 },
    /// Take a key again and again, and do in the folder what only one may do at a time.
    Race { key: Key, until_us: u64, folder: PathBuf },
    /// Take a key and give it back again and again.
    Relay { key: Key, until_us: u64 },
    /// Commit records of this prefix without end, and tell each one that was acknowledged.
    Stream { prefix: String },
    /// Commit the same number to all these records, again and again.
    Fill { names: Vec<String>, until_us: u64 },
    /// Wait until a record has another version.
    Await { name: String, version: u64 },
    /// Read a record.
    Read { name: String },
    /// Tell the wall clock, as libc tells it.
    Clock,
}

/// What another process answers.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Answer {
    Opened,
    Taken {
        fence: Fence,
        sent_us: u64,
        answered_us: u64,
    },
    Checked {
        lost: Option<String>,
    },
    Wrote {
        accepted: u32,
    },
    Raced {
        turns: u64,
    },
    Relayed {
        turns: Vec<Turn>,
    },
    Acknowledged {
        name: String,
        version: u64,
    },
    Filled {
        commits: u64,
    },
    Changed {
        at_us: u64,
    },
    Version(u64),
    Clock {
        unix_s: u64,
    },
    /// The store did something that it must not do.
    Failed(String),
    /// The store did not answer.
    Unavailable(String),
    /// This machine was in the way.
    NotRun(String),
}

/// One time that a process had a key.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) fence: Fence,
    pub(crate) granted_us: u64,
    pub(crate) released_us: u64,
}

/// A moment of the boot clock as it goes over the wire.
pub(crate) fn us(moment: Duration) -> u64 {
    u64::try_from(moment.as_micros()).unwrap_or(u64::MAX)
}
