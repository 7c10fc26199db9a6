//! The address of a store: `postgres://user:password@host:port/database?schema=bell`.
//!
//! Everything but `schema` is as in PostgreSQL's own connection URIs. The address itself is shown nowhere, since it
//! holds the password; what people see is [`Address::location`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bell_store::topic::Topic;
use bell_store::{Error, Kind, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

const DEFAULT_SCHEMA: &str = "bell";

/// PostgreSQL takes identifiers of 63 bytes, and the channel of the schema has a prefix.
const LONGEST_SCHEMA: usize = 48;

/// A connection whose other end is gone without a word is noticed within about half a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Where a store is, and how to get there.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) schema: Schema,
    pub(crate) security: Security,
}

/// Whether the connection is encrypted. Encryption without checking who is at the other end keeps nobody
/// out, so there is nothing in between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Security {
    /// It is not.
    Plain,
    /// It is, with a server whose certificate is trusted by those in this file, or by this machine.
    Tls(Option<PathBuf>),
}

/// The name of a schema that needs no quoting anywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Schema(String);

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let known = ["postgres://", "postgresql://"];
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(unreadable("it does not start with postgres://"));
        }
        let (url, schema) = take(url, "schema=");
        let (url, trusted) = take(&url, "sslrootcert=");
        let schema = Schema::named(schema.as_deref().unwrap_or(DEFAULT_SCHEMA))?;
        // The parser's own words may quote a part of the password that looks like something else.
        let mut config: Config = url.parse().map_err(|_| unreadable("it is not a connection URI"))?;
        let is_nameless = |host: &Host| matches!(host, Host::Tcp(name) if name.is_empty());
        if config.get_hosts().is_empty() || config.get_hosts().iter().any(is_nameless) {
            return Err(unreadable("it names no host"));
        }
        if config.get_user().is_none_or(str::is_empty) {
            return Err(unreadable("it names no user"));
        }
        let security = match config.get_ssl_mode() {
            SslMode::Require => Security::Tls(trusted.map(PathBuf::from)),
            _ => Security::Plain,
        };
        if security == Security::Plain {
            config.ssl_mode(SslMode::Disable);
        }
        config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVE_RETRIES);
        if config.get_application_name().is_none() {
            config.application_name("bell");
        }
        // Of several hosts the one that can be written is the store.
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config, schema, security })
    }

    /// Where it is, without credentials.
    pub(crate) fn location(&self) -> String {
        let ports = self.config.get_ports();
        let port = |place: usize| ports.get(place).or_else(|| ports.first()).copied().unwrap_or(5_432);
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(place, host)| match host {
                Host::Tcp(name) => format!("{name}:{}", port(place)),
                Host::Unix(folder) => format!("{}:{}", folder.display(), port(place)),
            })
            .collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("postgres://{}/{database}?schema={}", hosts.join(","), self.schema)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.location()).finish()
    }
}

impl Schema {
    /// The number that whoever listens to a topic of this store holds a lock on. All processes must agree on it; two
    /// topics of the same number are told of together.
    pub(crate) fn number_of(&self, topic: &Topic) -> i64 {
        let (kind, topic) = match topic {
            Topic::One(topic) => (b"/", topic.as_bytes()),
            Topic::Everything => (b"*", &b""[..]),
        };
        // FNV-1a.
        let pieces = [b"bellwether listens ", self.0.as_bytes(), kind, topic];
        let hash = pieces.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.cast_signed()
    }

    pub(crate) fn named(name: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase());
        if !starts_well || !name.bytes().all(is_plain) || name.len() > LONGEST_SCHEMA {
            return Err(Error::new(Kind::Invalid, format!("use {name:?} as the name of a schema")).hint(
                format!(
                    "Start with a small letter; use small letters, digits and underscores, at most {LONGEST_SCHEMA}."
                ),
            ));
        }
        if name == "public" || name == "information_schema" || name.starts_with("pg_") {
            return Err(Error::new(Kind::Invalid, format!("use the schema {name}: it is not for stores"))
                .hint("Name a schema of its own, for example ?schema=bell."));
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The channel on which commits are told.
    pub(crate) fn channel(&self) -> String {
        format!("bell_{}", self.0)
    }

    /// A statement with the name put in its places.
    pub(crate) fn fill(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.0)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The URL without a parameter of ours, and its value.
fn take(url: &str, parameter: &str) -> (String, Option<String>) {
    // A password may have question marks too.
    let behind_password = url.rfind('@').unwrap_or(0);
    let Some(mark) = url[behind_password..].find('?').map(|place| behind_password + place) else {
        return (url.to_owned(), None);
    };
    let (base, query) = (&url[..mark], &url[mark + 1..]);
    let (ours, others): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with(parameter));
    let value = ours.last().and_then(|part| part.strip_prefix(parameter)).map(str::to_owned);
    let mark = if others.is_empty() { "" } else { "?" };
    (format!("{base}{mark}{}", others.join("&")), value)
}

fn unreadable(reason: &str) -> Error {
    Error::new(Kind::Invalid, format!("read the store's address: {reason}")).hint(
        "Write postgres://user:password@host:5432/database?schema=bell, with %40 for an @ in the password.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> Error {
        Address::parse(url).map(|_| ()).unwrap_err()
    }

    #[test]
    fn an_address_without_a_schema_means_bell() {
        let address = Address::parse("postgres://ada:secret@db.example/app").unwrap();
        assert_eq!(address.schema.as_str(), "bell");
        assert_eq!(address.location(), "postgres://db.example:5432/app?schema=bell");
    }

    #[test]
    fn the_schema_is_ours_and_the_rest_is_postgresqls() {
        let url = "postgresql://ada@h1:1111,h2:2222/app?connect_timeout=3&schema=locks_2&keepalives=1";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.location(), "postgres://h1:1111,h2:2222/app?schema=locks_2");
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(address.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn a_password_may_have_a_question_mark() {
        let address = Address::parse("postgres://ada:why?@host/app?schema=locks").unwrap();
        assert_eq!(address.config.get_password(), Some(b"why?".as_slice()));
        assert_eq!(address.schema.as_str(), "locks");
    }

    #[test]
    fn a_schema_that_would_need_quoting_is_refused() {
        let long = "x".repeat(LONGEST_SCHEMA + 1);
        for name in ["", "1a", "Bell", "a-b", "a.b", "a\";drop", "a%20b", "_a", "pg_x", "public", &long] {
            let error = refused(&format!("postgres://ada@host/app?schema={name}"));
            assert_eq!(error.kind(), Kind::Invalid, "{name}");
            assert!(!error.advice().is_empty());
        }
    }

    #[test]
    fn nothing_that_people_see_has_the_password() {
        let address = Address::parse("postgres://ada:hunter2@host/app").unwrap();
        assert!(!format!("{address:?} {}", address.location()).contains("hunter2"));
        for url in [
            "postgres://ada:hunter2@host/app?no_such_option=hunter2",
            "postgres://ada:hunter2@host:port/app",
            "postgres://ada:hunter2@/app",
            "postgres://:hunter2@host/app",
            "mysql://ada:hunter2@host/app",
        ] {
            let error = refused(url);
            assert!(!format!("{error} {error:?} {}", error.advice()).contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn encryption_comes_with_what_it_trusts() {
        let security = |url| Address::parse(url).unwrap().security;
        let own = "postgres://ada@host/app?sslmode=require&sslrootcert=/a/ca.pem&schema=b";
        assert_eq!(security(own), Security::Tls(Some("/a/ca.pem".into())));
        assert_eq!(security("postgres://ada@host/app?sslmode=require"), Security::Tls(None));
        assert_eq!(security("postgres://ada@host/app?sslmode=prefer"), Security::Plain);
    }
}
