//! Several secrets.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess};
use serde::{Deserialize, Deserializer, Serialize};

use super::{SecretRef, VariableName};

/// The secrets that an agent gets: which variable has which. Nobody else gets them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct SecretList(pub BTreeMap<VariableName, SecretRef>);

/// In a list, the variable has the secret's own name; a file has none, so it needs the table.
impl<'de> Deserialize<'de> for SecretList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = SecretList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names, or a table from variable to reference")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<SecretList, A::Error> {
                let mut list = BTreeMap::new();
                while let Some(Listed(name, secret)) = items.next_element()? {
                    list.insert(name, secret);
                }
                Ok(SecretList(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SecretList, A::Error> {
                let mut list = BTreeMap::new();
                while let Some((name, secret)) = map.next_entry()? {
                    list.insert(name, secret);
                }
                Ok(SecretList(list))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretList, E> {
                // From metadata, where a list is text.
                let words =
                    text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
                let listed = words.map(|word| listed(word).ok_or_else(|| E::custom(NEEDS_A_NAME)));
                listed
                    .map(|entry| entry.map(|Listed(name, secret)| (name, secret)))
                    .collect::<Result<_, E>>()
                    .map(SecretList)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

struct Listed(VariableName, SecretRef);

fn listed(text: &str) -> Option<Listed> {
    match SecretRef::parse(text)? {
        secret @ (SecretRef::Env(_) | SecretRef::Named(_)) => {
            let name = match &secret {
                SecretRef::Env(name) | SecretRef::Named(name) => name.clone(),
                SecretRef::File(_) => return None,
            };
            Some(Listed(name, secret))
        }
        SecretRef::File(_) => None,
    }
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        listed(&text).ok_or_else(|| de::Error::custom(NEEDS_A_NAME))
    }
}

const NEEDS_A_NAME: &str =
    "not a secret with a name; list NAME or env:NAME, or write a table: { NAME = \"file:PATH\" }";

impl JsonSchema for SecretList {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SecretList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let reference = generator.subschema_for::<SecretRef>();
        json_schema!({
            "description": "Secrets as variables: a list of NAME or env:NAME, or a table from variable to reference.",
            "anyOf": [
                {"type": "array", "items": reference},
                {"type": "object", "additionalProperties": reference}
            ]
        })
    }
}

/// One reference, or several that all count while one secret replaces another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct SecretRefs(pub Vec<SecretRef>);

impl<'de> Deserialize<'de> for SecretRefs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = SecretRefs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reference to a secret, or a list of them")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretRefs, E> {
                let reference = SecretRef::parse(text).ok_or_else(|| E::custom(super::NOT_A_REFERENCE))?;
                Ok(SecretRefs(vec![reference]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<SecretRefs, A::Error> {
                let mut list = Vec::new();
                while let Some(secret) = items.next_element()? {
                    list.push(secret);
                }
                if list.is_empty() {
                    return Err(de::Error::custom("no secret at all; without one every delivery is refused"));
                }
                Ok(SecretRefs(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for SecretRefs {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SecretRefs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let reference = generator.subschema_for::<SecretRef>();
        json_schema!({"anyOf": [reference, {"type": "array", "items": reference, "minItems": 1}]})
    }
}
