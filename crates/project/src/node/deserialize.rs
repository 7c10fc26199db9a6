//! Nodes as a format of serde, so that settings are plain structs.
//!
//! Structs take both spellings of their fields; maps keep keys as they are. [`Typing::Loose`] text becomes
//! what is asked for, where that is possible.

use std::collections::HashSet;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::{Entry, Node, ReadError, Step, Typing, Value, snake};

impl Node {
    /// The same node as a list or table, if it is loose text that stands for one.
    fn unfolded(&self) -> Result<Option<Self>, ReadError> {
        let Some(text) = self.loose_text() else { return Ok(None) };
        if !text.starts_with(['[', '{']) {
            return Ok(None);
        }
        let json: serde_json::Value = serde_json::from_str(text).map_err(|error| {
            de::Error::custom(format_args!("{error}; write a list or table in metadata as JSON"))
        })?;
        Ok(Some(self.with_json(json)))
    }

    fn loose_text(&self) -> Option<&str> {
        match (&self.value, self.typing) {
            (Value::Text(text), Typing::Loose) => Some(text.trim()),
            _ => None,
        }
    }

    /// JSON that stands where this node stands. `serde_json` has bounded its depth.
    fn with_json(&self, json: serde_json::Value) -> Self {
        let value = match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(value) => Value::Integer(value),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Array(items) => {
                Value::List(items.into_iter().map(|item| self.with_json(item)).collect())
            }
            serde_json::Value::Object(map) => Value::Table(
                map.into_iter()
                    .map(|(key, item)| Entry { key, place: self.place.clone(), node: self.with_json(item) })
                    .collect(),
            ),
        };
        Self::new(value, self.place.clone())
    }

    /// The words of a loose text: a list without quotes.
    fn words(&self) -> Option<Vec<Self>> {
        let text = self.loose_text()?;
        let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let node = |word: &str| Self { value: Value::Text(word.to_owned()), ..self.clone() };
        Some(words.map(node).collect())
    }
}

/// Reads loose text as a number or as yes or no, where one is asked for.
macro_rules! scalar {
    ($($method:ident $type:ty, $visit:ident;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self.loose_text().map(str::parse::<$type>) {
                Some(Ok(value)) => visitor.$visit(value),
                _ => self.deserialize_any(visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for &Node {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if let Some(node) = self.unfolded()? {
            return node.deserialize_any(visitor);
        }
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(nodes) => visitor.visit_seq(Items { nodes, next: 0 }),
            Value::Table(entries) => visitor.visit_map(Fields { entries, next: 0, fields: None }),
        }
    }

    scalar! {
        deserialize_bool bool, visit_bool;
        deserialize_i8 i64, visit_i64;
        deserialize_i16 i64, visit_i64;
        deserialize_i32 i64, visit_i64;
        deserialize_i64 i64, visit_i64;
        deserialize_u8 u64, visit_u64;
        deserialize_u16 u64, visit_u64;
        deserialize_u32 u64, visit_u64;
        deserialize_u64 u64, visit_u64;
        deserialize_f32 f64, visit_f64;
        deserialize_f64 f64, visit_f64;
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Text(text) => visitor.visit_str(text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match (self.unfolded()?, self.words()) {
            (None, Some(nodes)) => visitor.visit_seq(Items { nodes: &nodes, next: 0 }),
            (Some(node), _) => node.deserialize_any(visitor),
            (None, None) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if let Some(node) = self.unfolded()? {
            return node.deserialize_struct(name, fields, visitor);
        }
        match &self.value {
            Value::Table(entries) => {
                refuse_both_spellings(entries)?;
                visitor.visit_map(Fields { entries, next: 0, fields: Some(fields) })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Text(text) => {
                let word: StrDeserializer<'_, ReadError> = text.as_str().into_deserializer();
                visitor.visit_enum(word)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct map identifier
    }
}

/// `max_reruns` beside `maxReruns`: nobody could say which one counts.
fn refuse_both_spellings(entries: &[Entry]) -> Result<(), ReadError> {
    let mut names = HashSet::with_capacity(entries.len());
    for entry in entries {
        if !names.insert(snake(&entry.key)) {
            let error: ReadError = de::Error::custom("given twice, in two spellings; keep one of them");
            return Err(error.inside(Step::Key(entry.key.clone()), &entry.place));
        }
    }
    Ok(())
}

struct Items<'a> {
    nodes: &'a [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some(node) = self.nodes.get(self.next) else { return Ok(None) };
        let at = self.next;
        self.next += 1;
        seed.deserialize(node).map(Some).map_err(|error| error.inside(Step::Index(at), &node.place))
    }
}

struct Fields<'a> {
    entries: &'a [Entry],
    next: usize,
    /// The fields of a struct, whose names have two spellings.
    fields: Option<&'static [&'static str]>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some(entry) = self.entries.get(self.next) else { return Ok(None) };
        let snaked = snake(&entry.key);
        let is_field = self.fields.is_some_and(|fields| fields.contains(&snaked.as_str()));
        let name = if is_field { snaked.as_str() } else { entry.key.as_str() };
        let key: StrDeserializer<'_, ReadError> = name.into_deserializer();
        seed.deserialize(key)
            .map(Some)
            .map_err(|error| error.inside(Step::Key(entry.key.clone()), &entry.place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some(entry) = self.entries.get(self.next) else {
            return Err(de::Error::custom("a value was asked for before its name"));
        };
        self.next += 1;
        seed.deserialize(&entry.node)
            .map_err(|error| error.inside(Step::Key(entry.key.clone()), &entry.node.place))
    }
}
