//! What somebody wants to hear of: values of one field are alternatives, and all fields must match.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::field::Field;

/// Bytes in a pattern: a long branch name fits.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Patterns for one field: a list of every repository of a team fits, and each delivery looks at all of them.
pub const PATTERNS_MAX: usize = 1_000;

/// What somebody wants to hear of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Filter {
    /// From which source, by its name in the settings.
    pub source: String,
    /// What else it must have.
    #[serde(flatten)]
    pub fields: BTreeMap<Field, Vec<Pattern>>,
}

/// A value that is wanted, or with `!` in front one that is not. `*` stands for any text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(String);

/// Why a text is no pattern. The words read after the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternError {
    /// Nothing could match it.
    Empty,
    /// More than [`PATTERN_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::TooLong => write!(f, "is longer than {PATTERN_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If nothing could match it, or it is too long.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        match text.strip_prefix('!').unwrap_or(text) {
            "" => Err(PatternError::Empty),
            wanted if wanted.len() > PATTERN_BYTES_MAX => Err(PatternError::TooLong),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it says what is not wanted.
    pub fn is_exclusion(&self) -> bool {
        self.0.starts_with('!')
    }

    /// Whether the value is what it names.
    pub(super) fn names(&self, field: Field, value: &str) -> bool {
        let wanted = self.0.strip_prefix('!').unwrap_or(&self.0);
        if field.minds_case() {
            return is_like(wanted, value);
        }
        is_like(&folded(wanted), &folded(value))
    }
}

/// The text in small letters. Most are so already, and need no copy.
fn folded(text: &str) -> Cow<'_, str> {
    let is_small = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if text.bytes().all(is_small) { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

/// Each text between two stars is looked for behind the one before: no step is taken twice.
fn is_like(pattern: &str, value: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == value };
    let Some(mut value) = value.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match value.find(part) {
            Some(at) => value = &value[at + part.len()..],
            None => return false,
        }
    }
    value.ends_with(last)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let alike = [
            ("acme/*", "acme/app"),
            ("*", ""),
            ("*", "x"),
            ("a*c", "ac"),
            ("a*c", "abbc"),
            ("*b*", "abc"),
            ("a*b*c", "a-b-b-c"),
            ("**", "x"),
            ("é*", "éa"),
        ];
        for (pattern, value) in alike {
            assert!(is_like(pattern, value), "{pattern} {value}");
        }
        let different = [
            ("acme/*", "acme"),
            ("a*c", "acb"),
            ("ab*ba", "aba"),
            ("*b*", "ac"),
            ("", "x"),
            ("a*b*c", "a-c-b"),
        ];
        for (pattern, value) in different {
            assert!(!is_like(pattern, value), "{pattern} {value}");
        }
    }

    #[test]
    fn case_counts_in_branches_only() {
        let pattern = Pattern::parse("Main").unwrap();
        assert!(pattern.names(Field::Labels, "main"));
        assert!(!pattern.names(Field::Branches, "main"));
        assert!(Pattern::parse("ÄRGER*").unwrap().names(Field::Labels, "ärgerlich"));
    }

    #[test]
    fn a_pattern_that_nothing_could_match_is_refused() {
        assert_eq!(Pattern::parse(""), Err(PatternError::Empty));
        assert_eq!(Pattern::parse("!"), Err(PatternError::Empty));
        assert_eq!(Pattern::parse(&"x".repeat(257)), Err(PatternError::TooLong));
    }
}
