//! What names a lock: a URI in its one canonical form (L1).
//!
//! Two spellings of one resource must be one lock, or two agents work on it at the same time. So a [`Key`]
//! can only be made by [`Key::parse`], which settles every spelling, and equal keys are equal text:
//! printable ASCII of at most [`KEY_BYTES_MAX`] bytes. Reading a key again changes nothing.
//!
//! | part | canonical form |
//! | --- | --- |
//! | scheme | lower-case |
//! | user and password | refused: everybody can see a key |
//! | host | lower-case ASCII; one dot at its end goes (`example.com.` is `example.com`); IPv6 in its shortest form; `localhost` of a `file` key goes |
//! | port | no leading zeros; gone if it is empty or the scheme's own |
//! | path after a host or a slash | dot segments gone; `file:/srv` is `file:///srv` |
//! | path of `job:nightly`, `urn:isbn:1` | opaque: dots mean nothing special |
//! | end of any path | no slash; slashes inside stay, `a//b` is not `a/b` |
//! | query, fragment | part of the name, in the given order; gone if empty |
//! | escapes | `%41` is `A`; `%2f` is `%2F` and is not `/`; whatever a URI can't hold, such as `é`, is escaped |
//!
//! When in doubt, two spellings are one key: to wait needlessly costs less than to work twice. What only a
//! resource's owner can know is left alone: upper and lower case in a path, the order of a query, and
//! the composed and decomposed forms of one accented letter are different keys.

mod authority;
mod canonical;
mod error;
mod percent;
mod visible;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use error::KeyError;

/// Bytes in a key, as given and in its canonical form. Long enough for any path that people type, short
/// enough that a record's name with the key in it fits every store.
pub const KEY_BYTES_MAX: usize = 512;

/// The canonical name of a resource that can be locked. A copy shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(Arc<str>);

impl Key {
    /// Reads any spelling of a key.
    pub fn parse(given: &str) -> Result<Self, KeyError> {
        check_length(given)?;
        visible::check_text(given)?;
        let (scheme, rest) = split_scheme(given)?;
        let letters = percent::read(rest, scheme.len() + 1)?;
        visible::check_decoded(&letters)?;
        let text = canonical::text(&scheme.to_ascii_lowercase(), &letters)?;
        check_length(&text)?;
        Ok(Self(text.into()))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the first colon: `deploy` in `deploy://api-prod`.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }
}

fn check_length(text: &str) -> Result<(), KeyError> {
    if text.len() > KEY_BYTES_MAX { Err(KeyError::TooLong { bytes: text.len() }) } else { Ok(()) }
}

/// The scheme and what follows its colon.
fn split_scheme(given: &str) -> Result<(&str, &str), KeyError> {
    let end = given.find([':', '/', '?', '#']).ok_or(KeyError::NoScheme)?;
    let (scheme, rest) = given.split_at(end);
    let rest = rest.strip_prefix(':').ok_or(KeyError::NoScheme)?;
    let first = scheme.chars().next().ok_or(KeyError::NoScheme)?;
    if !first.is_ascii_alphabetic() {
        return Err(KeyError::BadScheme { at: 0 });
    }
    match scheme.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))) {
        Some(at) => Err(KeyError::BadScheme { at }),
        None => Ok((scheme, rest)),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Key {
    type Err = KeyError;
    fn from_str(given: &str) -> Result<Self, KeyError> {
        Self::parse(given)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        Self::parse(&given).map_err(|error| de::Error::custom(format_args!("could not {error}")))
    }
}
