//! A value with the place where it stands: what YAML and TOML have in common.
//!
//! Both formats are read into [`Node`]s, so that settings are read, checked and explained in one way,
//! whichever file they come from.

mod deserialize;
mod error;
mod from_toml;
mod from_yaml;
mod read;

pub use error::ReadError;
pub use from_toml::parse_toml;
pub use from_yaml::parse_yaml;
pub use read::{Known, field_names, read};

use std::fmt;

use crate::problem::Place;

/// How deep lists and tables may stand in each other. Settings need four; a stack has room for this many.
pub const DEPTH_MAX: usize = 32;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it is.
    pub place: Place,
    /// Whether its type is as written.
    pub typing: Typing,
}

/// Whether a text may stand for something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Typing {
    /// It is what it is.
    Strict,
    /// It comes from where only text can be written (the `metadata` of a skill), so `"3"` is a number where a
    /// number is wanted, and `"[\"a\"]"` or `"a b"` a list where a list is wanted.
    Loose,
}

/// What a node can be.
#[derive(Clone)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Names and values, in the order of the file.
    Table(Vec<Entry>),
}

/// Without texts: one of them may be the URL of a store with its password.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(_) => f.write_str("…"),
            Self::List(nodes) => f.debug_list().entries(nodes).finish(),
            Self::Table(entries) => f.debug_list().entries(entries).finish(),
        }
    }
}

/// One name of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name as written.
    pub key: String,
    /// Where the name stands.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

/// A step on the way to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Into a table, by the name as written.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl Node {
    /// A node whose type is as written.
    pub fn new(value: Value, place: Place) -> Self {
        Self { value, place, typing: Typing::Strict }
    }

    /// A table without entries.
    pub fn empty(place: Place) -> Self {
        Self::new(Value::Table(Vec::new()), place)
    }

    /// The entries of a table; none if it is something else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// What a table has under this name, in either spelling.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| snake(&entry.key) == name).map(|entry| &entry.node)
    }

    /// Takes out what the steps lead to. Answers whether there was anything.
    pub(crate) fn remove(&mut self, steps: &[Step]) -> bool {
        let Some((step, rest)) = steps.split_first() else { return false };
        match (&mut self.value, step) {
            (Value::Table(entries), Step::Key(key)) => {
                let Some(at) = entries.iter().position(|entry| entry.key == *key) else { return false };
                if rest.is_empty() {
                    entries.remove(at);
                    return true;
                }
                entries[at].node.remove(rest)
            }
            (Value::List(nodes), Step::Index(at)) if *at < nodes.len() => {
                if rest.is_empty() {
                    nodes.remove(*at);
                    return true;
                }
                nodes[*at].remove(rest)
            }
            _ => false,
        }
    }
}

/// The snake_case spelling of a name: `maxReruns` and `max_reruns` are one key.
pub fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
            out.push(c.to_ascii_lowercase());
        } else {
            out.push(c);
        }
    }
    out
}

/// The camelCase spelling of a snake_case name.
pub fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for c in name.chars() {
        if c == '_' {
            raise = true;
        } else if std::mem::take(&mut raise) {
            out.push(c.to_ascii_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_spellings_of_a_name_are_one() {
        for (snaked, cameled) in [("max_reruns", "maxReruns"), ("scale", "scale"), ("a_b_c", "aBC")] {
            assert_eq!(snake(cameled), snaked);
            assert_eq!(snake(snaked), snaked);
            assert_eq!(camel(snaked), cameled);
        }
    }
}
