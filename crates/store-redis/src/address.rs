//! What a URL says: where the servers are, who we are, which part of the database is ours.
//!
//! Nothing here connects to anything. What is printed never contains the password.

mod text;

use std::fmt;

use bell_store::{Error, Kind, Result};

use text::{decoded, parse_host, split_userinfo};

const DEFAULT_PREFIX: &str = "bell";
/// Longer ones only make every key longer.
const MAX_PREFIX_BYTES: usize = 64;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) place: Place,
    pub(crate) security: Security,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: i64,
    /// What the keys start with, in braces: Cluster then keeps them on one node.
    pub(crate) prefix: String,
}

/// How the one node to talk to is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It is this one.
    Node(Host),
    /// The sentinels know.
    Sentinel { sentinels: Vec<Host>, service: String },
    /// Any of these nodes knows who has our slot.
    Cluster(Vec<Host>),
}

/// A host and its port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Whether the connection is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Security {
    Plain,
    Tls,
}

/// A password: never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Address {
    /// Reads `redis://[user:password@]host[:port][/database][?prefix=bell]`, the same with `rediss:` for TLS, and
    /// `redis+sentinel://host,host/service[/database]` and `redis+cluster://host,host`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("it has no `://`"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (userinfo, hosts) = split_userinfo(authority);
        let (user, password) = credentials(userinfo)?;
        let (security, kind) = scheme_of(scheme)?;
        let (place, database) = place(kind, hosts, path)?;
        Ok(Self { place, security, user, password, database, prefix: prefix(query)? })
    }

    /// The URL scheme without the mark of TLS.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.place {
            Place::Node(_) => "redis",
            Place::Sentinel { .. } => "redis+sentinel",
            Place::Cluster(_) => "redis+cluster",
        }
    }

    /// Where it is, without credentials.
    pub(crate) fn location(&self) -> String {
        let list = |hosts: &[Host]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let hosts = match &self.place {
            Place::Node(host) => host.to_string(),
            Place::Sentinel { sentinels, service } => format!("{}/{service}", list(sentinels)),
            Place::Cluster(nodes) => list(nodes),
        };
        format!("{hosts}/{}?prefix={}", self.database, self.prefix)
    }

    /// The keys of the store: what is known of it, the names in order, the records, the deleted names among them.
    pub(crate) fn keys(&self) -> [String; 4] {
        ["meta", "names", "records", "deleted"].map(|part| format!("{{{}}}:{part}", self.prefix))
    }

    /// The channel on which commits are told.
    pub(crate) fn channel(&self) -> String {
        format!("{{{}}}:changes", self.prefix)
    }
}

#[derive(Clone, Copy)]
enum PlaceKind {
    Node,
    Sentinel,
    Cluster,
}

fn scheme_of(scheme: &str) -> Result<(Security, PlaceKind)> {
    let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let security = match base {
        "redis" => Security::Plain,
        "rediss" if cfg!(feature = "tls") => Security::Tls,
        "rediss" => {
            return Err(Error::new(
                Kind::Unsupported,
                "use rediss: this program was built without TLS for Redis",
            )
            .hint("Build it with the feature redis-tls, or use redis: over a tunnel."));
        }
        _ => return Err(invalid("its scheme is unknown")),
    };
    match kind {
        "" => Ok((security, PlaceKind::Node)),
        "sentinel" => Ok((security, PlaceKind::Sentinel)),
        "cluster" => Ok((security, PlaceKind::Cluster)),
        _ => Err(invalid("its scheme is unknown")),
    }
}

fn credentials(userinfo: &str) -> Result<(Option<String>, Option<Secret>)> {
    let (user, password) = match userinfo.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (userinfo, None),
    };
    let decoded =
        |part: &str| decoded(part).ok_or_else(|| invalid("user or password is not percent-encoded"));
    let user = if user.is_empty() { None } else { Some(decoded(user)?) };
    Ok((user, password.map(decoded).transpose()?.map(Secret)))
}

fn place(kind: PlaceKind, hosts: &str, path: &str) -> Result<(Place, i64)> {
    let default_port = if matches!(kind, PlaceKind::Sentinel) { 26_379 } else { 6_379 };
    let parse =
        |host: &str| parse_host(host, default_port).ok_or_else(|| invalid("it names no host and port"));
    let mut hosts = hosts.split(',').map(parse).collect::<Result<Vec<_>>>()?;
    match kind {
        PlaceKind::Node if hosts.len() == 1 => Ok((Place::Node(hosts.remove(0)), database(path)?)),
        PlaceKind::Node => {
            Err(invalid("it names several hosts, which only redis+sentinel and redis+cluster do"))
        }
        PlaceKind::Sentinel => {
            let (service, path) = path.split_once('/').unwrap_or((path, ""));
            let service = decoded(service).filter(|service| !service.is_empty());
            let service = service.ok_or_else(|| invalid("it names no service after the sentinels"))?;
            Ok((Place::Sentinel { sentinels: hosts, service }, database(path)?))
        }
        PlaceKind::Cluster => match database(path)? {
            0 => Ok((Place::Cluster(hosts), 0)),
            _ => Err(invalid("a cluster has only database 0")),
        },
    }
}

fn database(path: &str) -> Result<i64> {
    match path.trim_end_matches('/') {
        "" => Ok(0),
        number => number
            .parse::<u32>()
            .map(i64::from)
            .map_err(|_| invalid("the database after the host is not a number")),
    }
}

fn prefix(query: &str) -> Result<String> {
    let mut prefix = DEFAULT_PREFIX.to_owned();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("prefix", value)) => prefix = value.to_owned(),
            _ => return Err(invalid("of all settings after `?` only prefix= is known")),
        }
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || !prefix.bytes().all(plain) {
        return Err(invalid("the prefix is not 1 to 64 of a-z A-Z 0-9 . _ -"));
    }
    Ok(prefix)
}

/// The URL itself is not repeated: it may contain a password.
fn invalid(why: &str) -> Error {
    Error::new(Kind::Invalid, format!("read the Redis URL: {why}")).hint(
        "Write redis://[user:password@]host[:port][/database][?prefix=bell], \
         redis+sentinel://host,host/service or redis+cluster://host,host.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn a_full_url_is_read() {
        let address = Address::parse("redis://ann:p%40ss:w@db.example:7000/3?prefix=team-a").unwrap();
        assert_eq!(address.place, Place::Node(host("db.example", 7_000)));
        assert_eq!(address.user.as_deref(), Some("ann"));
        assert_eq!(address.password, Some(Secret("p@ss:w".to_owned())));
        assert_eq!((address.database, address.prefix.as_str()), (3, "team-a"));
    }

    #[test]
    fn a_short_url_gets_the_defaults() {
        let address = Address::parse("redis://localhost").unwrap();
        assert_eq!(address.place, Place::Node(host("localhost", 6_379)));
        assert_eq!((address.database, address.prefix.as_str()), (0, "bell"));
        assert_eq!((address.user, address.password), (None, None));
    }

    #[test]
    fn a_password_without_a_user_is_read() {
        let address = Address::parse("redis://:secret@[::1]:7000").unwrap();
        assert_eq!(address.place, Place::Node(host("::1", 7_000)));
        assert_eq!(address.password, Some(Secret("secret".to_owned())));
    }

    #[test]
    fn sentinels_and_their_service_are_read() {
        let address = Address::parse("redis+sentinel://a,b:7000/locks/2").unwrap();
        let sentinels = vec![host("a", 26_379), host("b", 7_000)];
        assert_eq!(address.place, Place::Sentinel { sentinels, service: "locks".to_owned() });
        assert_eq!((address.database, address.scheme()), (2, "redis+sentinel"));
    }

    #[test]
    fn cluster_nodes_are_read() {
        let address = Address::parse("redis+cluster://a,b").unwrap();
        assert_eq!(address.place, Place::Cluster(vec![host("a", 6_379), host("b", 6_379)]));
    }

    #[test]
    fn all_keys_share_one_hash_tag() {
        let address = Address::parse("redis://a?prefix=x").unwrap();
        assert!(address.keys().iter().all(|key| key.starts_with("{x}:")));
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_its_password() {
        for url in [
            "redis:host",
            "redis://u:hunter2@",
            "redis://u:hunter2@host:port",
            "redis://u:hunter2@host/x",
            "redis://u:hunter2@a,b",
            "redis://u:hunter2%zz@host",
            "redis://u:hunter2@host?prefix=",
            "redis://u:hunter2@host?prefix={a}",
            "redis://u:hunter2@host?db=1",
            "redis+sentinel://u:hunter2@host",
            "redis+cluster://u:hunter2@host/1",
            "redis+x://u:hunter2@host",
            "postgres://u:hunter2@host",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{url}");
            assert!(!error.advice().is_empty(), "{url}");
            assert!(!format!("{error} {error:?} {}", error.advice()).contains("hunter2"), "{url}");
        }
    }

    #[test]
    fn neither_the_location_nor_the_debug_text_shows_credentials() {
        let address = Address::parse("redis://ann:hunter2@host/3").unwrap();
        assert_eq!(address.location(), "host:6379/3?prefix=bell");
        assert!(!format!("{address:?}").contains("hunter2"));
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn an_encrypted_address_is_refused_by_a_program_without_tls() {
        assert_eq!(Address::parse("rediss://host").unwrap_err().kind(), Kind::Unsupported);
    }
}
