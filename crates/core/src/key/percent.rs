//! Percent escapes: read once at the way in, written in one form at the way out.
//!
//! In between a key is a list of [`Letter`]s, so that an escaped slash is never taken for a slash.

use super::KeyError;

/// One byte of a key, and how it was written.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    /// What it stands for.
    pub(super) byte: u8,
    /// Where it stands in the given text.
    pub(super) at: usize,
    /// Whether it was written as `%XX`.
    pub(super) escaped: bool,
}

impl Letter {
    /// Whether this is the character itself, not an escape that stands for it.
    pub(super) fn is(self, mark: u8) -> bool {
        self.byte == mark && !self.escaped
    }
}

/// Reads text that begins `start` bytes into the given key.
pub(super) fn read(text: &str, start: usize) -> Result<Vec<Letter>, KeyError> {
    let mut letters = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let at = start + text.len() - rest.len();
        if first == b'%' {
            let (byte, after) = escape(after).ok_or(KeyError::BadEscape { at })?;
            letters.push(Letter { byte, at, escaped: true });
            rest = after;
        } else {
            letters.push(Letter { byte: first, at, escaped: false });
            rest = after;
        }
    }
    Ok(letters)
}

fn escape(after: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], rest) = after.split_first_chunk()?;
    Some((hex(high)? << 4 | hex(low)?, rest))
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// Writes letters in normal form. `keeps` says which marks stand for themselves in this part of a key when
/// they were not escaped.
pub(super) fn write(letters: &[Letter], keeps: fn(u8) -> bool) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(letters.len());
    for letter in letters {
        if is_unreserved(letter.byte) || (!letter.escaped && keeps(letter.byte)) {
            text.push(char::from(letter.byte));
        } else {
            let (high, low) = (letter.byte >> 4, letter.byte & 0xF);
            text.extend(['%', char::from(DIGITS[usize::from(high)]), char::from(DIGITS[usize::from(low)])]);
        }
    }
    text
}

/// Means the same escaped or not, anywhere in a URI.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Marks that a URI leaves to each scheme.
pub(super) fn is_sub_delimiter(byte: u8) -> bool {
    matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
}
