//! The host and port of a key.

use std::net::Ipv6Addr;

use super::KeyError;
use super::percent::{self, Letter};

/// The ports that need not be written.
const DEFAULT_PORTS: [(&str, u16); 20] = [
    ("amqp", 5672),
    ("amqps", 5671),
    ("ftp", 21),
    ("ftps", 990),
    ("git", 9418),
    ("http", 80),
    ("https", 443),
    ("ldap", 389),
    ("ldaps", 636),
    ("mongodb", 27017),
    ("mysql", 3306),
    ("nfs", 2049),
    ("postgres", 5432),
    ("postgresql", 5432),
    ("redis", 6379),
    ("rediss", 6379),
    ("sftp", 22),
    ("ssh", 22),
    ("ws", 80),
    ("wss", 443),
];

/// The canonical form of what stands between `//` and the path. Empty is left to the caller, who knows
/// whether a path follows.
pub(super) fn canonical(scheme: &str, authority: &[Letter]) -> Result<String, KeyError> {
    if authority.iter().any(|letter| letter.is(b'@')) {
        return Err(KeyError::Credentials);
    }
    let (host, port) = match authority {
        [first, inside @ ..] if first.is(b'[') => {
            let end = inside.iter().position(|letter| letter.is(b']')).ok_or(KeyError::BadHost)?;
            (ipv6(&inside[..end])?, &inside[end + 1..])
        }
        _ => {
            let end = authority.iter().position(|letter| letter.is(b':')).unwrap_or(authority.len());
            (name(scheme, &authority[..end])?, &authority[end..])
        }
    };
    match port {
        [] => Ok(host),
        [colon, digits @ ..] if colon.is(b':') => with_port(scheme, host, digits),
        _ => Err(KeyError::BadHost),
    }
}

fn name(scheme: &str, letters: &[Letter]) -> Result<String, KeyError> {
    let mut host = String::with_capacity(letters.len());
    for letter in letters {
        // An international host has many spellings and only its owner's registry knows them all, so it must
        // come in ASCII.
        let stands_plain = percent::is_sub_delimiter(letter.byte) && !letter.escaped;
        if !percent::is_unreserved(letter.byte) && !stands_plain {
            return Err(KeyError::BadHost);
        }
        host.push(char::from(letter.byte.to_ascii_lowercase()));
    }
    if let Some(shorter) = host.strip_suffix('.') {
        if shorter.is_empty() || shorter.ends_with('.') {
            return Err(KeyError::BadHost);
        }
        host.pop();
    }
    if scheme == "file" && host == "localhost" {
        host.clear();
    }
    Ok(host)
}

fn ipv6(letters: &[Letter]) -> Result<String, KeyError> {
    let address: Ipv6Addr = plain(letters).and_then(|text| text.parse().ok()).ok_or(KeyError::BadHost)?;
    Ok(format!("[{address}]"))
}

fn with_port(scheme: &str, host: String, digits: &[Letter]) -> Result<String, KeyError> {
    if host.is_empty() {
        return Err(KeyError::BadHost);
    }
    if digits.is_empty() {
        return Ok(host);
    }
    let digits = plain(digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let port: u16 = digits.and_then(|text| text.parse().ok()).ok_or(KeyError::BadPort)?;
    if DEFAULT_PORTS.contains(&(scheme, port)) { Ok(host) } else { Ok(format!("{host}:{port}")) }
}

/// The letters as text, if none of them was escaped.
fn plain(letters: &[Letter]) -> Option<String> {
    letters.iter().map(|letter| (!letter.escaped).then_some(char::from(letter.byte))).collect()
}
