//! Where a store is.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The URL of a store. It may hold a password, so it is shown without one, everywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Reads a URL: only its scheme is looked at here.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        (is_scheme && (!rest.is_empty() || scheme == "memory")).then(|| Self(text.to_owned()))
    }

    /// The same store by another URL, such as one with an absolute path.
    #[must_use]
    pub(crate) fn resolved(&self, resolve: impl FnOnce(&str) -> String) -> Self {
        Self(resolve(&self.0))
    }

    /// The whole URL, with its password: for opening the store.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Without whatever stands before an `@`, and without the query, where drivers take passwords too.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, query) = match self.0.split_once('?') {
            Some((url, _)) => (url, "?…"),
            None => (self.0.as_str(), ""),
        };
        match (url.find("//"), url.rfind('@')) {
            (Some(start), Some(at)) if start < at => {
                write!(f, "{}//…{}{query}", &url[..start], &url[at..])
            }
            _ => write!(f, "{url}{query}"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for StoreUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StoreUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The text is not repeated: it may hold a password.
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "not a store URL; write sqlite:PATH, file:FOLDER, redis://…, postgres://… or etcd://…",
            )
        })
    }
}

impl JsonSchema for StoreUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StoreUrl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where a store is: sqlite:PATH, file:FOLDER, redis://…, postgres://…, etcd://….",
            "type": "string",
            "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let cases = [
            ("postgres://u:hunter2@db/x", "postgres://…@db/x"),
            ("redis://:hunter2@h:1/0", "redis://…@h:1/0"),
            ("postgres://db/x?password=hunter2", "postgres://db/x?…"),
            ("sqlite:.bell/bell.db", "sqlite:.bell/bell.db"),
            ("memory:", "memory:"),
        ];
        for (url, shown) in cases {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
            assert!(!serde_json::to_string(&url).unwrap().contains("hunter2"));
        }
    }

    #[test]
    fn a_path_is_no_url() {
        for text in ["", "bell.db", ":x", "/a:b", "sqlite:"] {
            assert_eq!(StoreUrl::parse(text), None, "{text}");
        }
    }
}
