//! Sessions of programs outside of any run, as JSON.

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::session::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::token::Token;

/// A session that was made: the only answer that carries its secret.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionAnswer {
    /// `written`.
    pub outcome: Outcome,
    /// The session's id, as others see it. It proves nothing.
    #[schemars(with = "String")]
    pub session: SessionId,
    /// How long it outlives each heartbeat, in milliseconds; null if it is detached.
    pub ttl_ms: Option<u64>,
    /// Proves the session: send it as `Authorization: Bearer TOKEN` with whatever the session does.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "Token::serialize")]
    #[schemars(with = "Option<String>")]
    pub token: Option<Token>,
    /// What to do next, for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The answer to a heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatAnswer {
    /// `renewed`.
    pub outcome: Outcome,
    /// The session.
    #[schemars(with = "String")]
    pub session: SessionId,
    /// How long it lives from now on without another heartbeat, in milliseconds; null if it is detached.
    pub ttl_ms: Option<u64>,
    /// Leases of the session that an operator broke since the last heartbeat. They are over.
    pub revoked: Vec<RevokedAnswer>,
}

/// A lease that an operator broke.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevokedAnswer {
    /// The key.
    #[schemars(with = "String")]
    pub key: Key,
    /// The fence of the lease that is over.
    #[schemars(with = "u64")]
    pub fence: Fence,
    /// The operator's words.
    pub reason: String,
}

impl From<bell_core::session::Revoked> for RevokedAnswer {
    fn from(revoked: bell_core::session::Revoked) -> Self {
        Self { key: revoked.key, fence: revoked.fence, reason: revoked.reason }
    }
}
