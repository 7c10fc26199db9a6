//! Reading a question from a query: each name known and there once, each value what it should be; and the name in a path.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

use crate::limits::QUERY_NAMES_MAX;
use crate::refusal::Refusal;

/// What is asked, from the query of a request.
pub(crate) struct Question<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Question<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        read(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// The name in the path of a request, whatever it is.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        read.map(|Path(name)| Self(name)).map_err(|_| {
            Refusal::invalid(
                "could not read the name in the path: it is not UTF-8",
                "Write it percent-encoded, as UTF-8.",
            )
        })
    }
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, Refusal> {
    let pairs: Vec<(String, Value)> = form_urlencoded::parse(query.as_bytes())
        .take(QUERY_NAMES_MAX + 1)
        .map(|(name, value)| (name.into_owned(), Value(value.into_owned())))
        .collect();
    if pairs.len() > QUERY_NAMES_MAX {
        return Err(wrong("it has too many names"));
    }
    T::deserialize(MapDeserializer::new(pairs.into_iter())).map_err(|error: Error| wrong(&error.to_string()))
}

fn wrong(why: &str) -> Refusal {
    Refusal::invalid(
        format!("could not read the query: {why}"),
        "Write the query as /openapi.json has it, percent-encoded, each name once.",
    )
}

/// A value as text, read as whatever it is to be.
struct Value(String);

impl<'de> IntoDeserializer<'de, Error> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // A sign is no digit.
        let is_number = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { self.0.parse().ok() } else { None };
        visitor.visit_u64(number.ok_or_else(|| Error::custom(format!("{:?} is not a number", self.0)))?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.as_str() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(Error::custom(format!("{other:?} is neither true nor false"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.into_deserializer().deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use bell_api::control::logs::{LogQuery, LogStream};

    use super::*;

    #[test]
    fn values_are_read_as_what_they_are_to_be() {
        let read = read::<LogQuery>("from=12&grep=a%20b%26c&stream=err&tail=5");
        let asked = read.unwrap_or_else(|refusal| panic!("{refusal:?}"));
        assert_eq!((asked.from, asked.tail, asked.stream), (12, Some(5), Some(LogStream::Err)));
        assert_eq!(asked.grep.as_deref(), Some("a b&c"));
    }

    #[test]
    fn what_nobody_knows_or_is_wrong_is_refused_by_name() {
        let many = "from=1&".repeat(QUERY_NAMES_MAX + 1);
        for (query, word) in [
            ("colour=blue", "colour"),
            ("from=1&from=2", "from"),
            ("from=-1", "-1"),
            ("from=", "not a number"),
            ("from=99999999999999999999", "not a number"),
            ("stream=both", "both"),
            (many.as_str(), "too many"),
        ] {
            let refusal = read::<LogQuery>(query).err().unwrap_or_else(|| panic!("{query}"));
            let message = refusal.answer.message.unwrap_or_default();
            assert!(message.contains(word), "{query}: {message}");
        }
    }
}
