//! Takes a key apart at its marks and puts it together in canonical form.

use super::percent::{self, Letter};
use super::{KeyError, authority};

/// The canonical text of a key whose scheme, already lower-case, is followed by these letters.
pub(super) fn text(scheme: &str, letters: &[Letter]) -> Result<String, KeyError> {
    let parts = Parts::split(letters);
    let name = match parts.authority {
        Some(given) => rooted(authority::canonical(scheme, given)?, parts.path),
        None if parts.path.first().is_some_and(|first| first.is(b'/')) => rooted(String::new(), parts.path),
        None => opaque(parts.path),
    };
    if matches!(name.as_str(), "" | "//") {
        return Err(KeyError::EmptyRest);
    }
    let mut text = format!("{scheme}:{name}");
    for (mark, part) in [('?', parts.query), ('#', parts.fragment)] {
        if !part.is_empty() {
            text.push(mark);
            text.push_str(&percent::write(part, stands_in_query));
        }
    }
    Ok(text)
}

struct Parts<'a> {
    /// What stands between `//` and the path, if `//` is there.
    authority: Option<&'a [Letter]>,
    path: &'a [Letter],
    query: &'a [Letter],
    fragment: &'a [Letter],
}

impl<'a> Parts<'a> {
    fn split(letters: &'a [Letter]) -> Self {
        let (before, fragment) = split_at_mark(letters, b'#');
        let (name, query) = split_at_mark(before, b'?');
        match name {
            [first, second, rest @ ..] if first.is(b'/') && second.is(b'/') => {
                let end = rest.iter().position(|letter| letter.is(b'/')).unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                Self { authority: Some(authority), path, query, fragment }
            }
            path => Self { authority: None, path, query, fragment },
        }
    }
}

/// What stands before and after the first such mark; all of it and nothing if there is none.
fn split_at_mark(letters: &[Letter], mark: u8) -> (&[Letter], &[Letter]) {
    match letters.iter().position(|letter| letter.is(mark)) {
        Some(at) => (&letters[..at], &letters[at + 1..]),
        None => (letters, &[]),
    }
}

/// Always with `//`, so that a path which begins with two slashes can't be taken for a host.
fn rooted(authority: String, path: &[Letter]) -> String {
    let path = percent::write(path, stands_in_path);
    let mut segments = Vec::new();
    // What stands before the first slash is empty, and is not a segment.
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut name = format!("//{authority}");
    let end = segments.iter().rposition(|segment| !segment.is_empty()).map_or(0, |last| last + 1);
    for segment in &segments[..end] {
        name.push('/');
        name.push_str(segment);
    }
    name
}

fn opaque(path: &[Letter]) -> String {
    percent::write(path, stands_in_path).trim_end_matches('/').to_owned()
}

/// Whether a byte of a path is written as it is.
pub(super) fn stands_in_any_path(byte: u8) -> bool {
    percent::is_unreserved(byte) || stands_in_path(byte)
}

fn stands_in_path(byte: u8) -> bool {
    percent::is_sub_delimiter(byte) || matches!(byte, b':' | b'@' | b'/')
}

fn stands_in_query(byte: u8) -> bool {
    stands_in_path(byte) || byte == b'?'
}
