//! Reading a tree as settings, and finding everything that is wrong with it.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::{Node, Step};
use crate::problem::{PROBLEMS_MAX, Problem};

/// Names that may stand in a file beside the fields of its struct, for guessing what was meant.
pub type Known<'a> = &'a [&'static str];

/// Reads settings. What can't be read is noted, left out, and the rest is read on, so that all problems
/// show at once; whatever was left out has its default. Answers the settings and the tree that made them.
pub fn read<T>(root: &Node, also: Known<'_>, problems: &mut Vec<Problem>) -> (T, Node)
where
    T: DeserializeOwned + Default,
{
    let mut rest = root.clone();
    let mut removed: Vec<Vec<Step>> = Vec::new();
    for _ in 0..PROBLEMS_MAX {
        let error = match T::deserialize(&rest) {
            Ok(settings) => return (settings, rest),
            Err(error) => error,
        };
        let steps = error.steps();
        // What is missing because it was left out before has been told.
        if steps.is_empty() || !removed.iter().any(|inner| inner.starts_with(&steps)) {
            problems.push(error.into_problem(&root.place, also));
        }
        if !rest.remove(&steps) {
            break;
        }
        removed.push(steps);
    }
    (T::default(), Node::empty(root.place.clone()))
}

/// The names of a struct's fields, as files spell them.
pub fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    T::deserialize(Ask).err().map_or(&[], |answer| answer.0)
}

/// A format that holds nothing and tells what it was asked for.
struct Ask;

#[derive(Debug)]
struct Answer(&'static [&'static str]);

impl<'de> Deserializer<'de> for Ask {
    type Error = Answer;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Answer> {
        Err(Answer(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Answer> {
        Err(Answer(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl de::Error for Answer {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing was read")
    }
}

impl std::error::Error for Answer {}
