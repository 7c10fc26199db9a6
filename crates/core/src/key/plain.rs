//! Recognises text that is canonical already, so that reading it is one look and one copy.
//!
//! Keys are read far more often than people write them: out of records, and from programs that say them as they were
//! told. Nearly all of those need none of what [`super::canonical`] does. Whatever is not plainly canonical is left to
//! that: escapes, queries, ports, addresses in brackets. So this may say no to a canonical text, never yes to another.

use super::KEY_BYTES_MAX;
use super::percent::is_unreserved;

/// Whether this is a key in canonical form, as far as that can be told at a glance.
pub(super) fn is_canonical(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    if text.len() > KEY_BYTES_MAX || !is_scheme(scheme) {
        return false;
    }
    let Some(name) = rest.strip_prefix("//") else {
        // What follows one slash would get a second one.
        return !rest.is_empty() && !rest.starts_with('/') && is_path(rest);
    };
    let (host, path) = name.split_at(name.find('/').unwrap_or(name.len()));
    !name.is_empty() && is_host(scheme, host) && is_path(path) && !has_dot_segments(path)
}

fn is_scheme(scheme: &str) -> bool {
    let stands = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.');
    scheme.starts_with(|first: char| first.is_ascii_lowercase()) && scheme.bytes().all(stands)
}

/// Whether this names a host, or nothing, in the only way.
fn is_host(scheme: &str, host: &str) -> bool {
    let stands = |byte: u8| is_unreserved(byte) && !byte.is_ascii_uppercase();
    let is_left_out = scheme == "file" && host == "localhost";
    host.bytes().all(stands) && !host.ends_with('.') && !is_left_out
}

/// Whether every byte of a path stands for itself, and it ends where it should.
fn is_path(path: &str) -> bool {
    path.bytes().all(super::canonical::stands_in_any_path) && !path.ends_with('/')
}

fn has_dot_segments(path: &str) -> bool {
    path.split('/').any(|segment| matches!(segment, "." | ".."))
}
