//! What is in a body: JSON whose texts are those of the body itself, unless something in them is escaped. Reading a body
//! copies next to nothing: most of it is looked at once, and of the rest only a few short texts are kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A body, or a part of one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Part<'a>>),
    /// In the order of the body, or by name if there are many. Where a name is there twice, the last one counts.
    Table(Vec<(Cow<'a, str>, Part<'a>)>),
}

/// Fields of a table that are looked through one by one: those of GitHub's largest have a hundred. Whoever sends more, to
/// make looking for them slow, has them sorted.
const UNSORTED_MAX: usize = 256;

impl<'a> Part<'a> {
    /// What a table has under this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Table(fields) = self else { return None };
        let found = if fields.len() <= UNSORTED_MAX {
            fields.iter().rfind(|(known, _)| known == name)
        } else {
            let behind = fields.partition_point(|(known, _)| **known <= *name);
            fields[..behind].last().filter(|(known, _)| known == name)
        };
        found.map(|(_, part)| part)
    }

    /// The parts of a list.
    pub(crate) fn list(&self) -> Option<&[Self]> {
        if let Self::List(parts) = self { Some(parts) } else { None }
    }

    /// A number that is whole and not negative.
    pub(crate) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    /// The same, without the body.
    pub(crate) fn into_owned(self) -> Part<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Null => Part::Null,
            Self::Bool(value) => Part::Bool(value),
            Self::Number(number) => Part::Number(number),
            Self::Text(text) => Part::Text(owned(text)),
            Self::List(parts) => Part::List(parts.into_iter().map(Part::into_owned).collect()),
            Self::Table(fields) => {
                Part::Table(fields.into_iter().map(|(name, part)| (owned(name), part.into_owned())).collect())
            }
        }
    }

    /// The same, as something to be written again.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(parts) => Value::Array(parts.into_iter().map(Part::into_value).collect()),
            Self::Table(fields) => Value::Object(Map::from_iter(
                fields.into_iter().map(|(name, part)| (name.into_owned(), part.into_value())),
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Part<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Part::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Part::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Part::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Part::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        // JSON has no number that is none.
        Ok(Number::from_f64(value).map_or(Part::Null, Part::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Part::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Part::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        Ok(Part::List(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((Named(name), part)) = table.next_entry()? {
            fields.push((name, part));
        }
        if fields.len() > UNSORTED_MAX {
            // What is there twice keeps its order.
            fields.sort_by(|(one, _): &(Cow<'_, str>, _), (other, _)| one.cmp(other));
        }
        Ok(Part::Table(fields))
    }
}

/// A name in a table.
struct Named<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Named<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Named<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Named(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Named(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_json_is_read_as_serde_reads_it() {
        let text = r#"{"n":null,"b":true,"u":18446744073709551615,"i":-7,"f":1.5e3,"t":"plain","e":"\u00e9\n\"",
            "l":[1,[],{"x":"y"}],"a\tb":{},"twice":1,"twice":{"last":2}}"#;
        let part: Part<'_> = serde_json::from_str(text).unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(part.get("twice").and_then(|part| part.get("last")).and_then(Part::as_u64), Some(2));
        assert_eq!(part.clone().into_value(), value);
        assert_eq!(part.into_owned().into_value(), value);
    }

    #[test]
    fn a_table_of_many_fields_is_read_as_one_of_few() {
        let fields: Vec<String> =
            (0..2 * UNSORTED_MAX).map(|number| format!(r#""{}":{number}"#, number * 7_919 % 1_000)).collect();
        let text = format!(r#"{{{},"7":"first","7":"last"}}"#, fields.join(","));
        let part: Part<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(part.get("7"), Some(&Part::Text(Cow::Borrowed("last"))));
        let value: Value = serde_json::from_str(&text).unwrap();
        for name in (0..1_000).map(|number| number.to_string()) {
            let read = part.get(&name).cloned().map(Part::into_value);
            assert_eq!(read.as_ref(), value.get(&name), "{name}");
        }
        assert_eq!(part.into_value(), value);
    }

    #[test]
    fn a_text_without_escapes_is_not_copied() {
        let part: Part<'_> = serde_json::from_str(r#"{"a":["plain"]}"#).unwrap();
        let Part::Table(fields) = &part else { panic!("{part:?}") };
        assert!(matches!(fields[0].0, Cow::Borrowed("a")));
        assert_eq!(part.get("a").and_then(Part::list), Some(&[Part::Text(Cow::Borrowed("plain"))][..]));
        assert!(matches!(part.get("a").and_then(Part::list).unwrap()[0], Part::Text(Cow::Borrowed(_))));
    }
}
