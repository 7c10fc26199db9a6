//! Refuses what a person can't see in a key: it would make two keys that look like one.

use super::KeyError;
use super::percent::Letter;

/// Looks at the text as given.
pub(super) fn check_text(given: &str) -> Result<(), KeyError> {
    for (at, c) in given.char_indices() {
        check(c, at)?;
        if c.is_whitespace() {
            return Err(KeyError::Space { at });
        }
    }
    Ok(())
}

/// Looks at what the escapes stand for, since a terminal or a page may show them decoded. An escaped space
/// is fine, and so are bytes that are no text: file names have them.
pub(super) fn check_decoded(letters: &[Letter]) -> Result<(), KeyError> {
    let bytes: Vec<u8> = letters.iter().map(|letter| letter.byte).collect();
    let mut index = 0;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            check(c, letters[index].at)?;
            index += c.len_utf8();
        }
        index += chunk.invalid().len();
    }
    Ok(())
}

fn check(c: char, at: usize) -> Result<(), KeyError> {
    if c.is_control() {
        Err(KeyError::Control { at })
    } else if is_format(c) {
        Err(KeyError::Invisible { at })
    } else {
        Ok(())
    }
}

/// Joiners, direction marks, tags and the like: Unicode's format characters that have no shape of their own.
fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{AD}'
            | '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}'
    )
}
