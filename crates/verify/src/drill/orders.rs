//! What the two processes of a drill are told, and what they answer.

use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use serde::{Deserialize, Serialize};

/// What a process is to do.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum Order {
    /// Take a key and keep it alive.
    Hold { key: Key, ttl: Ttl, wait: Duration },
    /// Look whether what it holds can still be relied on.
    Check,
    /// Write a guarded value with the fence it got last.
    Write { resource: String, text: String, heed: Heed },
    /// Give back what it holds.
    Release,
}

/// What a process looks at before it writes.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heed {
    /// Whether its lease still stands, as every program should.
    Lease,
    /// Nothing: only the guard is between it and the value.
    Nothing,
}

/// What a process answers.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It holds the key.
    Held(Fence),
    /// What it holds can be relied on.
    Sure,
    /// What it held is over, and it knows.
    Lost(String),
    /// The guard let the write through.
    Wrote(Fence),
    /// The guard refused.
    Stale { given: Fence, seen: Fence },
    /// It gave the key back.
    Released,
    /// It could not do it for another reason.
    Failed(String),
}
