//! What is stored for one key: who holds it, who waits for it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::session::{RequestId, SessionId};
use crate::time::{Revision, Timestamp};

/// Rises with every grant of a key, for ever. What the write boundary checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// With whom a lease may coexist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// With nobody.
    #[default]
    Exclusive,
    /// With other shared leases.
    Shared,
}

impl Mode {
    /// Whether two sessions may hold the same key in these modes.
    pub fn coexists(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }

    /// Whether holding in this mode is enough for someone who asks for `wanted`.
    pub fn covers(self, wanted: Self) -> bool {
        self == Self::Exclusive || wanted == Self::Shared
    }
}

/// How long a lease lasts without renewal: at least 1 s (shorter than that, scheduling delays alone lose
/// it), at most 7 days (longer than that, a forgotten lease is an outage).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ttl(u64);

impl Ttl {
    /// The shortest.
    pub const MIN: Self = Self(1_000);
    /// The longest.
    pub const MAX: Self = Self(7 * 24 * 3_600 * 1_000);
    /// What is used where nobody says (`resourceLockTimeout`): half an hour.
    pub const DEFAULT: Self = Self(1_800_000);

    /// A ttl of that length.
    ///
    /// # Errors
    /// If it is out of bounds.
    pub fn new(length: Duration) -> Result<Self, TtlError> {
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        if (Self::MIN.0..=Self::MAX.0).contains(&ms) { Ok(Self(ms)) } else { Err(TtlError(length)) }
    }

    /// Its length.
    pub const fn length(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// How much earlier than the store a holder stops trusting its lease: a fifth, at least 500 ms.
    pub fn margin(self) -> Duration {
        (self.length() / 5).max(MIN_MARGIN)
    }
}

/// The least time by which a holder stops before the store does.
pub const MIN_MARGIN: Duration = Duration::from_millis(500);

/// A lease can't last that long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TtlError(Duration);

impl fmt::Display for TtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a ttl of {:?} is out of bounds: it must be between 1 s and 7 days", self.0)
    }
}

impl std::error::Error for TtlError {}

/// The stored record of a key. Kept only while somebody holds or waits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lock {
    /// One exclusive holder, or any number of shared ones.
    pub holders: Vec<Holder>,
    /// First come, first served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<Waiter>,
}

impl Lock {
    /// The record as it reads once stored: grants of the storing commit have its revision as their fence.
    #[must_use]
    pub fn stamped(mut self, stamp: Revision) -> Self {
        self.stamp(stamp);
        self
    }

    /// Makes it the record as it reads once stored.
    pub fn stamp(&mut self, stamp: Revision) {
        for holder in &mut self.holders {
            holder.fence.get_or_insert(Fence(stamp));
        }
    }

    /// Whether storing it grants something, so that the store must stamp it.
    pub fn has_new_grant(&self) -> bool {
        self.holders.iter().any(|holder| holder.fence.is_none())
    }

    /// Whether nobody holds and nobody waits.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    /// The lease of a session.
    pub fn held_by(&self, session: &SessionId) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.session == *session)
    }
}

/// A lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Whose it is.
    pub session: SessionId,
    /// The request that got it.
    pub request: RequestId,
    /// Exclusive or shared.
    #[serde(default)]
    pub mode: Mode,
    /// Since when.
    pub since: Timestamp,
    /// How long each renewal makes it last.
    pub ttl: Ttl,
    /// When it ends unless renewed.
    pub expires: Timestamp,
    /// Its fence. `None` only in a grant that is not stored yet: the store's stamp will be its fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
}

/// Somebody in the queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiter {
    /// Whose it is.
    pub session: SessionId,
    /// The request that waits.
    pub request: RequestId,
    /// Exclusive or shared.
    #[serde(default)]
    pub mode: Mode,
    /// Since when.
    pub since: Timestamp,
    /// How long the lease will last.
    pub ttl: Ttl,
    /// When it has given up at the latest.
    pub until: Timestamp,
    /// Every key of the request, if it asks for several; they are granted together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Key>,
    /// Its session waits for other keys too, so the search for cycles must look further than this queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

impl Waiter {
    /// Whether this is that request of that session. Callers choose the ids of their requests, so those of two sessions
    /// may be the same.
    pub fn is(&self, session: &SessionId, request: &RequestId) -> bool {
        self.session == *session && self.request == *request
    }
}
