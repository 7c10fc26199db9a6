//! The URL of a store: `etcd://[user:password@]host[:port][,host…][/prefix][?tls=on&ca=…&cert=…&key=…]`.
//!
//! What can't be read is refused without being repeated: a password that was not encoded may end up in any part.

use std::fmt;
use std::path::PathBuf;

use bell_store::{Error, Kind, Result};

const DEFAULT_PORT: u16 = 2_379;

/// The prefix of a URL that names none.
const DEFAULT_PREFIX: &str = "bell";

/// Bytes in a prefix. It is part of every key, and etcd keeps all keys in memory.
const MAX_PREFIX: usize = 256;

/// Where a store is and how to get in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    /// `host:port`, at least one.
    pub(crate) endpoints: Vec<String>,
    pub(crate) user: Option<(String, Secret)>,
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
}

/// Files for an encrypted connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tls {
    /// Who signed the servers' certificates.
    pub(crate) ca: Option<PathBuf>,
    /// This client's certificate.
    pub(crate) cert: Option<PathBuf>,
    /// This client's private key.
    pub(crate) key: Option<PathBuf>,
}

/// What must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Without credentials.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}/{}", self.endpoints.join(","), self.prefix)
    }
}

impl Address {
    /// # Errors
    /// [`Kind::Invalid`], with what to write instead.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("etcd://").ok_or_else(|| refused("it does not start with etcd://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(credentials(user)?), hosts),
            None => (None, authority),
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Result<_>>()?;
        Ok(Self { endpoints, user, prefix: parse_prefix(prefix)?, tls: parse_query(query)? })
    }
}

fn credentials(text: &str) -> Result<(String, Secret)> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() {
        return Err(refused("it has a password but no user"));
    }
    Ok((user, Secret(password)))
}

fn endpoint(text: &str) -> Result<String> {
    // The colons of [::1] do not start a port.
    let (host, port) = match text.rfind(':').filter(|colon| text.rfind(']').is_none_or(|end| end < *colon)) {
        Some(colon) => (&text[..colon], &text[colon + 1..]),
        None => (text, ""),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:%".contains(&byte);
    if host.is_empty() || !host.bytes().all(plain) {
        return Err(refused("a host in it is missing or has characters that no host has"));
    }
    let port = match port {
        "" => DEFAULT_PORT,
        port => port.parse().map_err(|_| refused("a port in it is no number up to 65535"))?,
    };
    Ok(format!("{host}:{port}"))
}

fn parse_prefix(text: &str) -> Result<String> {
    let prefix = decoded(text.trim_matches('/'))?;
    if prefix.len() > MAX_PREFIX || prefix.chars().any(char::is_control) {
        return Err(refused("its prefix is longer than 256 bytes or has control characters"));
    }
    Ok(if prefix.is_empty() { DEFAULT_PREFIX.to_owned() } else { prefix })
}

fn parse_query(query: &str) -> Result<Option<Tls>> {
    let (mut tls, mut is_on) = (Tls::default(), false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let path = Some(PathBuf::from(decoded(value)?));
        match name {
            "tls" if ["on", "off"].contains(&value) => is_on = value == "on",
            "ca" => tls.ca = path,
            "cert" => tls.cert = path,
            "key" => tls.key = path,
            _ => return Err(refused("after the ? only tls=on, ca=FILE, cert=FILE and key=FILE are known")),
        }
    }
    if tls.cert.is_some() != tls.key.is_some() {
        return Err(refused("cert=FILE and key=FILE go together"));
    }
    if !is_on && tls != Tls::default() {
        return Err(refused("ca, cert and key are used with tls=on only"));
    }
    Ok(is_on.then_some(tls))
}

fn decoded(text: &str) -> Result<String> {
    let malformed = || refused("a % in it is not followed by two hexadecimal digits of UTF-8 text");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit().zip(digit()).map(|(high, low)| high * 16 + low);
        bytes.push(value.and_then(|value| u8::try_from(value).ok()).ok_or_else(malformed)?);
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

fn refused(why: &str) -> Error {
    Error::new(Kind::Invalid, format!("read the address of the store: {why}")).hint(
        "Write etcd://user:password@host:2379,host2:2379/prefix, with %40 for @, %2F for / and %3A for : in the password.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    #[test]
    fn the_shortest_address_gets_the_usual_port_and_prefix() {
        let address = parsed("etcd://localhost");
        assert_eq!(address.endpoints, ["localhost:2379"]);
        assert_eq!((address.prefix.as_str(), address.user, address.tls), ("bell", None, None));
    }

    #[test]
    fn an_address_names_several_hosts_a_user_and_a_prefix() {
        let address = parsed("etcd://ann:p%40ss%2f@a:1,[::1]:2,[::1],b/fleet/one/");
        assert_eq!(address.endpoints, ["a:1", "[::1]:2", "[::1]:2379", "b:2379"]);
        assert_eq!(address.prefix, "fleet/one");
        let (user, password) = address.user.unwrap();
        assert_eq!((user.as_str(), password.reveal()), ("ann", "p@ss/"));
    }

    #[test]
    fn an_address_names_the_files_of_an_encrypted_connection() {
        let tls = parsed("etcd://a/b?tls=on&ca=/etc/ca.pem&cert=c&key=k").tls.unwrap();
        assert_eq!(tls.ca.unwrap().to_str(), Some("/etc/ca.pem"));
        assert!(parsed("etcd://a/b?tls=on").tls.is_some());
        assert!(parsed("etcd://a/b?tls=off").tls.is_none());
    }

    #[test]
    fn an_address_is_shown_without_its_credentials() {
        let address = parsed("etcd://ann:geheim@a:1,b:2/fleet");
        assert_eq!(address.to_string(), "etcd://a:1,b:2/fleet");
        assert!(!format!("{address:?}").contains("geheim"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_advice_and_without_repeating_it() {
        for url in [
            "redis://geheim",
            "etcd:geheim",
            "etcd://",
            "etcd:///geheim",
            "etcd://:geheim@host",
            "etcd://ann:geheim/teil@host",
            "etcd://ann:geheim",
            "etcd://ann:geheim%zz@host",
            "etcd://ann:%ff@host",
            "etcd://geheim:99999",
            "etcd://host/a?geheim=1",
            "etcd://host/a?cert=geheim&tls=on",
            "etcd://host/a?ca=geheim",
            "etcd://host/ge%00heim",
            "etcd://host one,geheim",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{url}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("geheim") && !error.advice().is_empty(), "{url}: {shown}");
        }
    }
}
