//! Which deliveries are for an agent.

use std::collections::BTreeMap;
use std::fmt;

use bell_core::webhook::filter::PATTERNS_MAX;
use bell_core::webhook::{Field, Filter, Pattern};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess};
use serde::{Deserialize, Deserializer, Serialize};

/// Which deliveries of a webhook source start the agent. Values of one field are alternatives; all fields
/// must match.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct WebhookRule(pub Filter);

impl<'de> Deserialize<'de> for WebhookRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = WebhookRule;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WebhookRule, A::Error> {
                let (mut source, mut fields) = (None, BTreeMap::new());
                while let Some(Word(field)) = map.next_key()? {
                    if field == Field::Source {
                        source = Some(map.next_value()?);
                    } else if fields.insert(field, map.next_value::<Patterns>()?.0).is_some() {
                        let message = format_args!("{field} is given twice, in two words; keep one of them");
                        return Err(de::Error::custom(message));
                    }
                }
                let source = source.ok_or_else(|| de::Error::missing_field("source"))?;
                Ok(WebhookRule(Filter { source, fields }))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// The name of a field, in any of its words.
struct Word(Field);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Field::parse(&word).map(Self).ok_or_else(|| de::Error::unknown_field(&word, Field::WORDS))
    }
}

/// A pattern, or a list of them.
struct Patterns(Vec<Pattern>);

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OneOrMore(texts) = OneOrMore::deserialize(deserializer)?;
        if texts.is_empty() {
            return Err(de::Error::custom(
                "nothing is in the list, so nothing would match; name something, or take it out",
            ));
        }
        if texts.len() > PATTERNS_MAX {
            let message = format_args!("more than {PATTERNS_MAX} values; write some of them as one, with *");
            return Err(de::Error::custom(message));
        }
        let read = |text: &String| {
            Pattern::parse(text).map_err(|error| {
                de::Error::custom(format_args!(
                    "the value {error}; write a value, part*of*one, or !what is not wanted"
                ))
            })
        };
        texts.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl JsonSchema for WebhookRule {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WebhookRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let field = |meaning: &str| {
            let text = json_schema!({"type": ["string", "integer", "boolean"]});
            json_schema!({
                "description": meaning.trim(),
                "anyOf": [text, {"type": "array", "items": text, "minItems": 1}]
            })
        };
        let words = Field::TABLE.iter().filter(|(known, ..)| *known != Field::Source);
        let words = words.flat_map(|(_, words, meaning)| words.iter().map(move |word| (*word, *meaning)));
        let mut properties: serde_json::Map<String, serde_json::Value> =
            words.map(|(word, meaning)| (word.to_owned(), field(meaning).to_value())).collect();
        let source = json_schema!({"type": "string", "description": "A [webhooks.<source>] of the project."});
        properties.insert("source".to_owned(), source.to_value());
        json_schema!({
            "description": "Which deliveries of a webhook source start the agent.",
            "type": "object",
            "required": ["source"],
            "properties": properties,
            "additionalProperties": false
        })
    }
}

/// A text, or a list of them.
struct OneOrMore(Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = OneOrMore;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of texts")
            }
            fn visit_str<E>(self, text: &str) -> Result<OneOrMore, E> {
                Ok(OneOrMore(vec![text.to_owned()]))
            }
            fn visit_bool<E>(self, value: bool) -> Result<OneOrMore, E> {
                Ok(OneOrMore(vec![value.to_string()]))
            }
            fn visit_u64<E>(self, value: u64) -> Result<OneOrMore, E> {
                Ok(OneOrMore(vec![value.to_string()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMore, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element()? {
                    texts.push(text);
                }
                Ok(OneOrMore(texts))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
