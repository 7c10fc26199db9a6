//! Why a node can't be read as what is wanted.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::Step;
use crate::nearest::nearest;
use crate::problem::{Place, Problem};

/// Why a node can't be read. It collects where it happened on its way up.
#[derive(Debug)]
pub struct ReadError(Box<Fault>);

#[derive(Debug)]
struct Fault {
    message: String,
    hint: Option<String>,
    /// The name that nobody knows, and those that could have been meant.
    unknown: Option<(String, Vec<&'static str>)>,
    place: Option<Place>,
    /// From the inside to the outside.
    steps: Vec<Step>,
}

impl ReadError {
    /// With the place if it has none yet, and one more step of the way to it.
    pub(super) fn inside(mut self, step: Step, place: &Place) -> Self {
        self.0.place.get_or_insert_with(|| place.clone());
        self.0.steps.push(step);
        self
    }

    /// The way from the outside to what can't be read.
    pub(super) fn steps(&self) -> Vec<Step> {
        self.0.steps.iter().rev().cloned().collect()
    }

    /// As a problem of the file. `also` are more names that could have been meant, at the outermost level.
    pub(super) fn into_problem(self, root: &Place, also: &[&'static str]) -> Problem {
        let subject = self.0.subject();
        let fault = *self.0;
        let nearest = fault.unknown.and_then(|(name, known)| {
            let also = if fault.steps.len() == 1 { also } else { &[] };
            nearest(&name, known.into_iter().chain(also.iter().copied())).map(str::to_owned)
        });
        let message =
            if subject.is_empty() { fault.message } else { format!("{subject}: {}", fault.message) };
        let place = fault.place.unwrap_or_else(|| root.clone());
        Problem { hint: fault.hint, nearest, ..Problem::error(place, message) }
    }

    fn new(message: String, hint: Option<String>) -> Self {
        Self(Box::new(Fault { message, hint, unknown: None, place: None, steps: Vec::new() }))
    }
}

impl Fault {
    /// The dotted name of what can't be read; an unknown name is a part of the message instead.
    fn subject(&self) -> String {
        let skipped = usize::from(self.unknown.is_some());
        let mut subject = String::new();
        for step in self.steps.iter().skip(skipped).rev() {
            match step {
                Step::Key(key) if subject.is_empty() => subject.push_str(key),
                Step::Key(key) => subject.push_str(&format!(".{key}")),
                Step::Index(at) => subject.push_str(&format!("[{at}]")),
            }
        }
        subject
    }
}

/// Texts are not repeated: one of them may be a secret in the wrong place.
fn plain(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(_) | Unexpected::Char(_) => "text".to_owned(),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        _ => "something else".to_owned(),
    }
}

/// The words of serde are made for programmers; these are for people who write settings.
fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a string" | "a borrowed string" | "string or map" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        _ if text.starts_with("struct ") => "a table".to_owned(),
        _ if text.contains("enum") => "one of its words".to_owned(),
        _ => text,
    }
}

impl de::Error for ReadError {
    /// What stands after a semicolon is the hint.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        match text.split_once("; ") {
            Some((message, hint)) => Self::new(message.to_owned(), Some(hint.to_owned())),
            None => Self::new(text, None),
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let message = format!("expected {}, found {}", wanted(expected), plain(found));
        let wants_text = wanted(expected) == "text";
        let is_scalar = matches!(
            found,
            Unexpected::Bool(_) | Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_)
        );
        let hint = (wants_text && is_scalar).then(|| "Put it in quotes.".to_owned());
        Self::new(message, hint)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {}", wanted(expected), plain(found)), None)
    }

    fn invalid_length(found: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {found} of them", wanted(expected)), None)
    }

    fn unknown_variant(given: &str, known: &'static [&'static str]) -> Self {
        let shown: String = given.chars().take(40).collect();
        let mut error = Self::new(format!("{shown:?} is none of its words"), Some(one_of(known)));
        // Not an unknown name: the subject stays in the message.
        if let Some(name) = nearest(given, known.iter().copied()) {
            error.0.message.push_str(&format!(" (did you mean {name:?}?)"));
        }
        error
    }

    fn unknown_field(given: &str, known: &'static [&'static str]) -> Self {
        let shown: String = given.chars().take(64).collect();
        let hint = if known.len() <= 12 { one_of(known) } else { KEYS_HINT.to_owned() };
        let mut error = Self::new(format!("unknown key {shown:?}"), Some(hint));
        error.0.unknown = Some((given.to_owned(), known.to_vec()));
        error
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("{field:?} is missing"), Some(format!("Add {field}.")))
    }
}

const KEYS_HINT: &str = "`bell config schema` lists every key.";

fn one_of(known: &[&str]) -> String {
    if known.is_empty() {
        return "Nothing can stand here.".to_owned();
    }
    format!("Use {}.", known.join(", "))
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ReadError {}
