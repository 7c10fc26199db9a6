//! What an agent is called.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Characters in a name: as many as the Agent Skills format allows, and enough for any folder.
pub const NAME_CHARS_MAX: usize = 64;

/// The name of an agent: 1 to 64 of `a-z`, `0-9` and `-`, with no hyphen at either end and no two together.
///
/// It is also the name of a folder and a part of record names, so nothing else can be one: no dot, no slash,
/// no upper case that a file system might fold. A copy shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(Arc<str>);

/// Why a text is no agent's name. The words read after the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// No character at all.
    Empty,
    /// More than [`NAME_CHARS_MAX`].
    TooLong,
    /// Something else than `a-z`, `0-9`, `-`.
    Character,
    /// A hyphen at an end, or two together.
    Hyphen,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::TooLong => write!(f, "is longer than {NAME_CHARS_MAX} characters"),
            Self::Character => f.write_str("has a character other than a-z, 0-9 and -"),
            Self::Hyphen => f.write_str("has a hyphen at its start or end, or two together"),
        }
    }
}

impl std::error::Error for NameError {}

impl AgentName {
    /// Reads a name.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.chars().nth(NAME_CHARS_MAX).is_some() {
            return Err(NameError::TooLong);
        }
        if !text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
            return Err(NameError::Character);
        }
        if text.starts_with('-') || text.ends_with('-') || text.contains("--") {
            return Err(NameError::Hyphen);
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for AgentName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl Serialize for AgentName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AgentName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| {
            de::Error::custom(format_args!("the name {error}; use 1 to 64 of a-z, 0-9 and single hyphens"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_to_sixty_four_small_letters_digits_and_single_hyphens() {
        for good in ["a", "0", "issue-triage", "a-1-b", &"x".repeat(64)] {
            assert_eq!(AgentName::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        let long = "x".repeat(65);
        let cases = [
            ("", NameError::Empty),
            (long.as_str(), NameError::TooLong),
            ("Triage", NameError::Character),
            ("a_b", NameError::Character),
            ("a.b", NameError::Character),
            ("..", NameError::Character),
            ("a/b", NameError::Character),
            ("a\0b", NameError::Character),
            ("ä", NameError::Character),
            ("%2e%2e", NameError::Character),
            ("-a", NameError::Hyphen),
            ("a-", NameError::Hyphen),
            ("a--b", NameError::Hyphen),
        ];
        for (text, expected) in cases {
            assert_eq!(AgentName::parse(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn a_stored_name_that_could_escape_is_refused() {
        assert!(serde_json::from_str::<AgentName>("\"a/../b\"").is_err());
    }
}
