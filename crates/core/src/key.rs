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
mod plain;
mod visible;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use error::KeyError;

/// Bytes in a key, as given and in its canonical form. Long enough for any path that people type, short
/// enough that a record's name with the key in it fits every store.
pub const KEY_BYTES_MAX: usize = 512;

/// The scheme of Bellwether's own keys. Callers can read them; they can't acquire or break them.
const RESERVED_SCHEME: &str = "bell";

/// The canonical name of a resource that can be locked. A copy shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(Arc<str>);

impl Key {
    /// Reads any spelling of a key.
    pub fn parse(given: &str) -> Result<Self, KeyError> {
        if plain::is_canonical(given) { Ok(Self(given.into())) } else { Ok(Self(settle(given)?.into())) }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the first colon: `deploy` in `deploy://api-prod`.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Whether the key is one of Bellwether's own, `bell:…`: who holds it says which daemons are there.
    pub fn is_reserved(&self) -> bool {
        self.scheme() == RESERVED_SCHEME
    }
}

/// The canonical text of any spelling.
fn settle(given: &str) -> Result<String, KeyError> {
    check_length(given)?;
    visible::check_text(given)?;
    let (scheme, rest) = split_scheme(given)?;
    let letters = percent::read(rest, scheme.len() + 1)?;
    visible::check_decoded(&letters)?;
    let text = canonical::text(&scheme.to_ascii_lowercase(), &letters)?;
    check_length(&text)?;
    Ok(text)
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
        deserializer.deserialize_str(AnySpelling)
    }
}

struct AnySpelling;

impl de::Visitor<'_> for AnySpelling {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, given: &str) -> Result<Key, E> {
        Key::parse(given).map_err(|error| E::custom(format_args!("could not {error}")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that canonical text and other text differ in, and a letter.
    const TELLING: [&str; 16] =
        ["a", "B", "0", "-", "~", ".", "/", ":", "@", "%41", "%2F", "?", "#", "!", "é", " "];

    /// What a text may begin with.
    const BEGINNINGS: [&str; 9] =
        ["", "x:", "X:", "x:/", "x://", "x://h", "x://h/a", "file://localhost", "http://h:8"];

    #[track_caller]
    fn is_left_as_it_is(text: &str) {
        if plain::is_canonical(text) {
            assert_eq!(settle(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_taken_for_canonical_is_what_any_spelling_of_it_becomes() {
        let mut texts: Vec<String> = BEGINNINGS.map(str::to_owned).into();
        for _ in 0..4 {
            texts.iter().for_each(|text| is_left_as_it_is(text));
            let longer = texts.iter().flat_map(|text| TELLING.map(|piece| format!("{text}{piece}")));
            texts = longer.collect();
        }
        texts.iter().for_each(|text| is_left_as_it_is(text));
    }

    #[test]
    fn keys_as_people_write_them_are_known_at_a_glance() {
        let keys =
            ["deploy://api-prod", "file:///srv/index", "job:nightly", "git+ssh://h.example/a//b/c.git"];
        for key in keys {
            assert!(plain::is_canonical(key), "{key}");
        }
        let longest = format!("x:{}", "a".repeat(KEY_BYTES_MAX - 2));
        assert!(plain::is_canonical(&longest) && !plain::is_canonical(&format!("{longest}a")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_taken_for_canonical_is(
            beginning in prop::sample::select(BEGINNINGS.to_vec()),
            pieces in prop::collection::vec(prop_oneof![
                9 => prop::sample::select(TELLING.to_vec()).prop_map(str::to_owned),
                1 => any::<char>().prop_map(String::from),
            ], 0..12),
        ) {
            is_left_as_it_is(&format!("{beginning}{}", pieces.concat()));
        }

        #[test]
        fn what_any_text_becomes_is_not_changed_by_a_second_reading(given in "[a-z]{1,3}:(//)?[!-~]{1,20}") {
            if let Ok(text) = settle(&given) {
                prop_assert_eq!(Key::parse(&text).map(|key| key.as_str().to_owned()), Ok(text));
            }
        }
    }
}
