//! The secret that proves a session, as text.

use std::fmt;

use serde::{Deserialize, Serializer};

/// Proves a session to the service. Whoever has it can release and renew what the session holds.
///
/// It has no `Serialize`, so that no answer carries it by accident: the one that may
/// ([`AcquireAnswer`](crate::lock::AcquireAnswer)) asks for it by name.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// The secret itself, for sending it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Writes the secret into an answer.
    pub(crate) fn serialize<S: Serializer>(token: &Option<Self>, serializer: S) -> Result<S::Ok, S::Error> {
        match token {
            Some(token) => serializer.serialize_some(&token.0),
            None => serializer.serialize_none(),
        }
    }
}

impl From<String> for Token {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
