//! L1 over generated keys: whatever is given, a key is canonical; however it is spelled, it is the same key.

use bell_core::key::{KEY_BYTES_MAX, Key, KeyError};
use proptest::prelude::*;

/// A key's parts before anybody chose how to spell them.
#[derive(Clone, Debug)]
struct Plain {
    scheme: String,
    host: String,
    segments: Vec<String>,
    query: Option<String>,
}

impl Plain {
    fn canonical(&self) -> String {
        let mut text = format!("{}://{}", self.scheme, self.host);
        for segment in &self.segments {
            text.push('/');
            text.push_str(segment);
        }
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(query);
        }
        text
    }

    /// Another spelling of the same key; each choice is made by the next of `dice`.
    fn respelled(&self, dice: &[u8]) -> String {
        let mut dice = dice.iter().copied().cycle();
        let mut roll = move |sides: u8| dice.next().unwrap_or(0) % sides;
        let mut text = format!("{}://", shuffle_case(&self.scheme, &mut roll));
        text.push_str(&escape_some(&shuffle_case(&self.host, &mut roll), &mut roll));
        if roll(2) == 0 {
            text.push('.');
        }
        text.push_str(match (self.scheme.as_str(), roll(3)) {
            (_, 0) => ":",
            ("https", 1) => ":443",
            ("ssh", 1) => ":0022",
            ("redis", 1) => ":6379",
            _ => "",
        });
        for segment in &self.segments {
            text.push_str(["", "", "/.", "/%2e", "/gone/.."][usize::from(roll(5))]);
            text.push('/');
            text.push_str(&escape_some(segment, &mut roll));
        }
        text.push_str(["", "/", "/.", "//"][usize::from(roll(4))]);
        match &self.query {
            Some(query) => text.push_str(&format!("?{}", escape_some(query, &mut roll))),
            None => text.push_str(["", "?"][usize::from(roll(2))]),
        }
        text.push_str(["", "#"][usize::from(roll(2))]);
        text
    }
}

fn shuffle_case(text: &str, roll: &mut impl FnMut(u8) -> u8) -> String {
    text.chars().map(|c| if roll(2) == 0 { c.to_ascii_uppercase() } else { c }).collect()
}

/// Escapes some letters that need no escape, in upper or lower case. Marks such as `=` stay: escaped, they
/// would name something else.
fn escape_some(text: &str, roll: &mut impl FnMut(u8) -> u8) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        let unreserved = c.is_ascii_alphanumeric() || "-._~".contains(c);
        match roll(4) {
            0 if unreserved => escaped.push_str(&format!("%{:02x}", c as u8)),
            1 if unreserved => escaped.push_str(&format!("%{:02X}", c as u8)),
            _ => escaped.push(c),
        }
    }
    escaped
}

fn plain_key() -> impl Strategy<Value = Plain> {
    let scheme = prop::sample::select(vec!["https", "ssh", "redis", "deploy", "git+x"]);
    // Not a dot segment: those are put in by the respelling.
    let segment = "[A-Za-z0-9_~!$=:@-][A-Za-z0-9._~!$=:@-]{0,6}";
    (
        scheme.prop_map(str::to_owned),
        "[a-z][a-z0-9-]{0,5}(\\.[a-z0-9]{1,4}){0,2}",
        prop::collection::vec(segment, 0..4),
        prop::option::of("[A-Za-z0-9._~=&/?-]{1,8}"),
    )
        .prop_map(|(scheme, host, segments, query)| Plain { scheme, host, segments, query })
}

/// Text made of the pieces that a reader of keys trips over.
fn near_key() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "a", "B", "/", "//", ":", ".", "..", "/../", "/./", "?", "#", "@", "%", "%2F", "%2e", "%41", "%c3", "%A9",
            "%00", "%zz", "[", "]", "::1", ":80", ":443", "é", "\u{200B}", " ", "localhost",
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let start = prop::sample::select(vec!["", "http:", "http://", "file:", "FILE:///", "x:", "http://h"]);
    (start, prop::collection::vec(piece, 0..12))
        .prop_map(|(start, pieces)| format!("{start}{}", pieces.concat()))
}

fn canonical(given: &str) -> Result<String, KeyError> {
    Key::parse(given).map(|key| key.as_str().to_owned())
}

fn check_canonical(given: &str) -> Result<(), TestCaseError> {
    let Ok(key) = Key::parse(given) else { return Ok(()) };
    let text = key.as_str();
    prop_assert!(text.len() <= KEY_BYTES_MAX);
    prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    prop_assert_eq!(Key::parse(text), Ok(key.clone()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_refused_or_becomes_a_printable_key_that_reads_as_itself(given in ".{0,600}") {
        check_canonical(&given)?;
    }

    #[test]
    fn a_text_that_is_nearly_a_key_is_refused_or_becomes_a_key_that_reads_as_itself(given in near_key()) {
        check_canonical(&given)?;
    }

    #[test]
    fn a_key_of_plain_parts_is_canonical(plain in plain_key()) {
        prop_assert_eq!(canonical(&plain.canonical()), Ok(plain.canonical()));
    }

    #[test]
    fn every_spelling_of_a_key_is_the_same_key(
        plain in plain_key(),
        dice in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let spelling = plain.respelled(&dice);
        prop_assert_eq!(canonical(&spelling), Ok(plain.canonical()), "from {}", spelling);
    }
}
