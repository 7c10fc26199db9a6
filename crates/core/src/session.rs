//! Who holds and who waits: a public identity that anybody may see, and a secret that proves it.
//!
//! The record keeps only a hash of the secret. It is also the session's mailbox: what others did to it
//! (granted what it waited for, broke what it held) is written here, so its owner watches one record.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::key::Key;
use crate::lock::Fence;
use crate::time::Timestamp;

/// How long a session outlives its last heartbeat: the longest time that a dead machine can keep what it
/// held.
pub const SESSION_TTL: Duration = Duration::from_secs(15);

/// Names a session; never used twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(#[serde(deserialize_with = "shared_text")] Arc<str>);

/// Names one request, so that repeating it gives the one outcome.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(#[serde(deserialize_with = "shared_text")] Arc<str>);

/// Reads a text into the one piece of memory that it is kept in: queues have many of them.
fn shared_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = Arc<str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E>(self, text: &str) -> Result<Arc<str>, E> {
            Ok(text.into())
        }
    }

    deserializer.deserialize_str(Text)
}

/// What every id that is a text can do.
macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

pub(crate) use text_id;

text_id!(SessionId);
text_id!(RequestId);

/// What anybody may know about a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Identity {
    /// The agent that runs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run of that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The process on that machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl fmt::Display for Identity {
    /// The most telling words first: label, agent, run, then where.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [&self.label, &self.agent, &self.run].into_iter().flatten();
        let who = words.map(String::as_str).collect::<Vec<_>>().join(" ");
        f.write_str(if who.is_empty() { "unnamed session" } else { &who })?;
        match (self.pid, &self.node) {
            (Some(pid), Some(node)) => write!(f, " (pid {pid} on {node})"),
            (Some(pid), None) => write!(f, " (pid {pid})"),
            (None, Some(node)) => write!(f, " (on {node})"),
            (None, None) => Ok(()),
        }
    }
}

/// Proves a session. It can't be printed or stored, nor compared in a hurry.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret of these bytes, which must come from a source of randomness.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for handing the secret to its owner.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether both are the same, in time that does not depend on how much agrees.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// What a store may keep of it.
    pub fn proof(&self) -> Proof {
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in Sha256::digest(self.0) {
            // A string takes whatever is written.
            let _ = write!(text, "{byte:02x}");
        }
        Proof(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The hash of a secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Proof(String);

impl Proof {
    /// Whether this is the hash of `secret`, in time that does not depend on how much agrees.
    pub fn matches(&self, secret: &Secret) -> bool {
        self.0.as_bytes().ct_eq(secret.proof().0.as_bytes()).into()
    }
}

/// The stored record of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// What anybody may know.
    pub who: Identity,
    /// What its owner must match.
    pub proof: Proof,
    /// When it ends unless its owner is heard of. `None`: nobody sends heartbeats, its leases stand for
    /// themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// How long it outlives each heartbeat, in milliseconds, where that is not [`SESSION_TTL`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Since when it was found to have nothing left that keeps it: cleared by whatever it takes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fading: Option<Timestamp>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Leases that an operator broke, until the owner has taken note.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<Revoked>,
}

impl Session {
    /// A session that has neither taken nor wanted anything yet.
    pub fn new(who: Identity, proof: Proof, expires: Option<Timestamp>) -> Self {
        Self { who, proof, expires, ttl_ms: None, fading: None, waits: Vec::new(), revoked: Vec::new() }
    }

    /// How long it outlives its last heartbeat.
    pub fn ttl(&self) -> Duration {
        self.ttl_ms.map_or(SESSION_TTL, Duration::from_millis)
    }

    /// Whether it has not run out.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

/// A request that waits in the queues of its keys.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// The request.
    pub request: RequestId,
    /// Every key it asks for.
    pub keys: Vec<Key>,
}

/// A lease that an operator broke.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Revoked {
    /// The key.
    pub key: Key,
    /// The fence of the lease that is over.
    pub fence: Fence,
    /// The operator's words.
    pub reason: String,
    /// Who the operator is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
