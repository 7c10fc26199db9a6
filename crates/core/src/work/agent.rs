//! How an agent is named.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name: that of the Agent Skills format.
const MAX_BYTES: usize = 64;

/// The name of an agent: that of its folder. Letters a–z, digits and single hyphens between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct AgentName(Arc<str>);

/// A text that names no agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadAgentName(String);

impl AgentName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentName {
    type Err = BadAgentName;

    fn from_str(text: &str) -> Result<Self, BadAgentName> {
        let plain = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if text.len() <= MAX_BYTES && text.split('-').all(plain) {
            Ok(Self(text.into()))
        } else {
            Err(BadAgentName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for AgentName {
    type Error = BadAgentName;

    fn try_from(text: String) -> Result<Self, BadAgentName> {
        text.parse()
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadAgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(MAX_BYTES).collect();
        write!(
            f,
            "{shown:?} is no name for an agent: use 1 to {MAX_BYTES} of a-z, 0-9 and single hyphens between them"
        )
    }
}

impl std::error::Error for BadAgentName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_words_joined_by_single_hyphens() {
        for name in ["a", "triage", "issue-triage-2", "0", &"x".repeat(64)] {
            assert_eq!(name.parse::<AgentName>().unwrap().as_str(), name);
        }
        for name in
            ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "../a", "a/b", "ä", "a b", "a\0", &"x".repeat(65)]
        {
            assert!(name.parse::<AgentName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_stored_name_that_could_escape_is_refused() {
        assert!(serde_json::from_str::<AgentName>("\"a/../b\"").is_err());
    }
}
