//! Names that fit a pattern, and a command with the item's path in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Whether a name fits: `*` is any text, `?` any one character.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on if what follows the last star does not fit: one character further.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((after, tried)) => {
                    star = Some((after, tried + 1));
                    (p, n) = (after + 1, tried + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The command, with `{}` replaced by the path.
pub(super) fn with_path(command: &[OsString], path: &OsStr) -> Vec<OsString> {
    command.iter().map(|word| replaced(word.as_bytes(), path.as_bytes())).collect()
}

fn replaced(word: &[u8], path: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(path);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name) in
            [("*", ""), ("*.json", "a.json"), ("a?c*", "abc"), ("a*b*c", "aXbYbZc"), ("", "")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.json", "a.jso"), ("?", ""), ("a", "b"), ("a*b", "aXc"), ("", "x")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_path_is_put_in_as_it_is() {
        let command = ["convert", "{}", "--to={}.png", "{", "}"].map(OsString::from);
        let words = with_path(&command, OsStr::new("/q/a b;rm"));
        assert_eq!(words, ["convert", "/q/a b;rm", "--to=/q/a b;rm.png", "{", "}"]);
    }
}
