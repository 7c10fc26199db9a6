//! When to try again, and which deliveries are for an agent.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess};
use serde::{Deserialize, Deserializer, Serialize};

use super::Length;

/// When a job whose run did not succeed is tried again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// How often a job is tried in all; 1 is once.
    pub attempts: u32,
    /// The ends after which it is tried again.
    pub on: Vec<FailureClass>,
    /// How long to wait before the second try; twice as long before each further one.
    pub backoff: Length,
    /// The longest wait between two tries.
    pub max: Length,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            on: vec![FailureClass::Lost],
            backoff: Length::from_secs(10),
            max: Length::from_secs(600),
        }
    }
}

/// How a run can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// It ended by itself, with an exit code other than 0.
    Failed,
    /// A signal ended it that was not Bellwether's.
    Crashed,
    /// Its time was up.
    Timeout,
    /// Nobody knows how it ended: its node or its supervisor died.
    Lost,
    /// The daemon was told to stop before it was done.
    Interrupted,
    /// A lock that it must have before it starts was held by another.
    Busy,
    /// It could not be started.
    Unstartable,
}

/// Which deliveries of a webhook source start the agent. Values of one field are alternatives; all fields
/// must match. The fields are those of the source's type.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WebhookRule {
    /// A `[webhooks.<source>]` of the project.
    pub source: String,
    /// What else a delivery must have.
    #[serde(flatten)]
    pub filters: BTreeMap<String, Vec<String>>,
}

impl<'de> Deserialize<'de> for WebhookRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = WebhookRule;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WebhookRule, A::Error> {
                let (mut source, mut filters) = (None, BTreeMap::new());
                while let Some(key) = map.next_key::<String>()? {
                    if key == "source" {
                        source = Some(map.next_value()?);
                    } else {
                        filters.insert(key, map.next_value::<OneOrMore>()?.0);
                    }
                }
                let source = source.ok_or_else(|| de::Error::missing_field("source"))?;
                Ok(WebhookRule { source, filters })
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl JsonSchema for WebhookRule {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WebhookRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Which deliveries of a webhook source start the agent.",
            "type": "object",
            "required": ["source"],
            "properties": {"source": {"type": "string"}},
            "additionalProperties": one_or_more_schema()
        })
    }
}

fn one_or_more_schema() -> Schema {
    json_schema!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
}

/// A text, or a list of them.
pub(super) struct OneOrMore(pub(super) Vec<String>);

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
