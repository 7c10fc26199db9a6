//! What is asked of locks, as JSON. A field that nobody knows is refused, so that a misspelt one is never left out in
//! silence.
//!
//! Keys arrive as text and are read later, so that a wrong one is answered with the reason and a hint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// With whom a lease may coexist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// With nobody.
    #[default]
    Exclusive,
    /// With other shared leases.
    Shared,
}

impl From<Mode> for bell_core::lock::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared,
        }
    }
}

impl From<bell_core::lock::Mode> for Mode {
    fn from(mode: bell_core::lock::Mode) -> Self {
        match mode {
            bell_core::lock::Mode::Exclusive => Self::Exclusive,
            bell_core::lock::Mode::Shared => Self::Shared,
        }
    }
}

/// Asks for locks, all or nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
    /// What to lock: 1 to 16 URIs.
    pub keys: Vec<String>,
    /// Exclusive, if nothing is said.
    #[serde(default)]
    pub mode: Mode,
    /// How long it lasts without renewal, in milliseconds: 1 s to 7 days. What the project says, if nothing is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// How long to wait in the queue, in milliseconds, over all calls; 0: answer at once. One call waits 55 s at the
    /// most and then answers `waiting`: call again with the same request id to keep the place.
    #[serde(default)]
    pub wait_ms: u64,
    /// Repeated with the same id, a request has the one outcome: 1 to 64 letters, digits, `-`, `_`, `.` and `:`.
    pub request_id: String,
}

/// Gives up a request that waits. Whatever it was granted in the meantime is given back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    /// The request.
    pub request_id: String,
}

/// Makes a lease last its full ttl again, from now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// The key.
    pub key: String,
    /// Only the lease with this fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Another ttl from now on, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// Gives a lease back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The key.
    pub key: String,
    /// Only the lease with this fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

/// Makes a session. At the desk of a run: one of its own, whose locks exclude those of the run, and which ends with the run
/// at the latest. At the daemon: one for a program outside of any run, which ends when nobody keeps it alive.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// Words that others see beside its locks, 200 bytes at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The process that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The machine that it is for, 200 bytes at the most. A run's own is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How long it outlives each heartbeat, in milliseconds: 5 s to 1 day; 15 s, if nothing is said. A run's own lives as
    /// long as the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Nobody sends heartbeats: each lease stands for itself until its own ttl is over, and the session ends when it has
    /// none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

/// Asks for nothing more than the address says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}
