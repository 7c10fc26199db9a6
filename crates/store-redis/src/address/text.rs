//! The parts of a URL as text.

use super::Host;

/// The user and password before the last `@`, and the rest.
pub(super) fn split_userinfo(authority: &str) -> (&str, &str) {
    authority.rsplit_once('@').unwrap_or(("", authority))
}

/// A host, and its port or this one. `None`: it is neither.
pub(super) fn parse_host(text: &str, default_port: u16) -> Option<Host> {
    let (name, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (name, rest) = bracketed.split_once(']')?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (name, port)
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
    (!name.is_empty()).then(|| Host { name: name.to_owned(), port })
}

/// Text without percent-encoding. `None`: it is wrongly encoded.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_decoded_and_wrong_encoding_is_not() {
        assert_eq!(decoded("a%20b%c3%a4").as_deref(), Some("a bä"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_with_and_without_ports_are_read() {
        let host = |name: &str, port| Some(Host { name: name.to_owned(), port });
        assert_eq!(parse_host("a", 1), host("a", 1));
        assert_eq!(parse_host("a:2", 1), host("a", 2));
        assert_eq!(parse_host("[::1]", 1), host("::1", 1));
        assert_eq!(parse_host("[::1]:2", 1), host("::1", 2));
        for wrong in ["", ":2", "a:b", "a:70000", "[::1", "[::1]2"] {
            assert_eq!(parse_host(wrong, 1), None, "{wrong}");
        }
    }
}
