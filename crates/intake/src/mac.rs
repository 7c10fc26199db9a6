//! Comparing signatures, in time that does not depend on how much of them agrees.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// A code over bytes that only who has the key can make.
pub(crate) type Code = [u8; 32];

/// The code of these parts, one after the other.
pub(crate) fn code(key: &[u8], parts: &[&[u8]]) -> Option<Code> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac.finalize().into_bytes().into())
}

/// Whether one of the keys made one of these codes. Every pair is looked at, so that the time says nothing.
pub(crate) fn is_made_by<'k>(
    keys: impl IntoIterator<Item = &'k [u8]>,
    parts: &[&[u8]],
    given: &[Code],
) -> bool {
    let mut found = Choice::from(0);
    for key in keys {
        let Some(code) = code(key, parts) else { continue };
        for given in given {
            found |= code.ct_eq(given);
        }
    }
    found.into()
}

/// A code in hex, in small letters, as every source writes it: another spelling was not made by it.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Bytes in hex, in small letters.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// A code in base64, padded, in the one spelling that stands for it.
pub(crate) fn from_base64(text: &str) -> Option<Code> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// Bytes in base64.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of GitHub's documentation.
    #[test]
    fn a_code_is_that_of_the_well_known_example() {
        let code = code(b"It's a Secret to Everybody", &[b"Hello, ", b"World!"]).unwrap();
        assert_eq!(to_hex(&code), "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    }

    #[test]
    fn there_is_one_spelling_of_a_code() {
        let code = [0xab; 32];
        assert_eq!(from_hex(&to_hex(&code)), Some(code));
        assert_eq!(from_hex::<32>(&to_hex(&code).to_uppercase()), None);
        assert_eq!(from_hex::<32>(&format!("{} ", to_hex(&code))), None);
        let base64 = to_base64(&code);
        assert_eq!(from_base64(&base64), Some(code));
        assert_eq!(from_base64(base64.trim_end_matches('=')), None);
        // The last digit has two bits that stand for nothing.
        assert_eq!(from_base64(&base64.replace("s=", "t=")), None);
        assert_eq!(from_base64("AAAA"), None);
    }
}
