//! YAML as nodes.
//!
//! Frontmatter is small and comes from anywhere, so the budget is small: an alias bomb, a tower of brackets
//! or a million keys are refused while they are read, not after.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, MergeKeyPolicy, NonFiniteFloatPolicy, Options, Spanned};

use super::{DEPTH_MAX, Entry, Node, Value};
use crate::problem::{Place, Problem};

/// Values in a frontmatter: fifty times what any agent needs.
const NODES_MAX: usize = 4_000;
/// Aliases, and values that they may bring: a few are handy, many are an attack.
const ALIASES_MAX: usize = 50;
const ALIASED_MAX: usize = 2_000;

/// Reads YAML whose first line is line `first_line` of the file. None, and a note, if it can't be read.
pub fn parse_yaml(text: &str, file: &Place, first_line: u32, problems: &mut Vec<Problem>) -> Option<Node> {
    let start = file.at(first_line, 1);
    let spot = |location: Location| -> Place {
        let line = u32::try_from(location.line()).unwrap_or(u32::MAX);
        let column = u32::try_from(location.column()).unwrap_or(u32::MAX).max(1);
        if line == 0 { start.clone() } else { file.at(line.saturating_add(first_line - 1), column) }
    };
    match serde_saphyr::from_str_with_options::<Option<Spanned<Raw>>>(text, options()) {
        Ok(Some(raw)) => Some(node(raw, &spot)),
        Ok(None) => Some(Node::empty(start)),
        Err(error) => {
            let place = error.location().map_or_else(|| start.clone(), spot);
            problems.push(Problem::error(place, format!("not readable as YAML: {}", words(&error))));
            None
        }
    }
}

/// What went wrong, without the place, which stands in front already.
fn words(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let end = text.find(" at line ").unwrap_or(text.len());
    text[..end].trim_end_matches(',').to_owned()
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 3 * NODES_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_merge_keys: ALIASES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_MAX,
            max_replay_stack_depth: 8,
            max_alias_expansions_per_anchor: ALIASES_MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // Only true and false: a country code «no» is text.
        strict_booleans: true,
        with_snippet: false,
    }
}

enum Raw {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Table(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn node(raw: Spanned<Raw>, spot: &impl Fn(Location) -> Place) -> Node {
    let place = spot(raw.referenced);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Integer(value) => Value::Integer(value),
        Raw::Float(value) => Value::Float(value),
        Raw::Text(text) => Value::Text(text),
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, spot)).collect()),
        Raw::Table(entries) => Value::Table(
            entries
                .into_iter()
                .map(|(key, item)| Entry {
                    place: spot(key.referenced),
                    key: key.value,
                    node: node(item, spot),
                })
                .collect(),
        ),
    };
    Node::new(value, place)
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Raw, E> {
        i64::try_from(value).map(Raw::Integer).map_err(|_| E::custom("a number too large to be one"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Table(entries))
    }
}
