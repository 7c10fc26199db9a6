//! Keys with blanks: `github://{repo}/issues/{number}`, filled in from what triggered a run.
//!
//! A value stands for itself and nothing more: whatever could end a part of the key, begin another or climb
//! out of it is escaped. Only a blank that a template marks as a path, `{file*}`, keeps its slashes, and so does
//! one right after `//`, where a repository's `owner/name` stands and an escaped slash can't; each part between
//! the slashes is a plain name then.

use std::fmt;

use bell_core::key::{Key, KeyError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// Bytes in a template: as many as a key may have.
const TEMPLATE_BYTES_MAX: usize = bell_core::key::KEY_BYTES_MAX;

/// A key with blanks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Blank { name: String, shape: Shape },
}

/// What a value may be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// One part of a path.
    Segment,
    /// Several parts, with slashes between them.
    Path,
}

/// Why a text is no template. The words read after the text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// More bytes than a key may have.
    #[error("longer than {TEMPLATE_BYTES_MAX} bytes")]
    TooLong,
    /// A `{` without `}`.
    #[error("the blank at byte {0} is not closed")]
    Open(usize),
    /// A `}` without `{`.
    #[error("the }} at byte {0} closes nothing")]
    Close(usize),
    /// A blank whose name is not made of letters, digits, `_`, `-` and dots.
    #[error("the blank at byte {0} has no name that can be looked up")]
    Name(usize),
    /// No scheme of its own: what is filled in would choose the kind of thing.
    #[error("it does not begin with a scheme")]
    Scheme,
    /// Filled with plain words it is no key.
    #[error("it makes no key: {0}")]
    Key(KeyError),
}

/// Why a template can't be filled in. The words read after «could not».
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RenderError {
    /// The trigger has nothing of this name.
    #[error("fill in {{{name}}}: the trigger has no {name:?}")]
    Missing {
        /// The name.
        name: String,
    },
    /// What the trigger has is a list, a table, or nothing.
    #[error("fill in {{{name}}}: it is not text or a number")]
    NotPlain {
        /// The name.
        name: String,
    },
    /// What the trigger has names nothing: it is empty, or a part of it is empty, `.` or `..`.
    #[error("fill in {{{name}}}: it names nothing")]
    Empty {
        /// The name.
        name: String,
    },
    /// The result is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::TooLong);
        }
        let parts = split(text)?;
        check_start(&parts)?;
        let template = Self { text: text.to_owned(), parts };
        let sample = template.fill(&|_| Ok("x".to_owned())).map_err(|_| TemplateError::Scheme)?;
        Key::parse(&sample).map_err(TemplateError::Key)?;
        Ok(template)
    }

    /// The template as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of its blanks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Blank { name, .. } => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    fn fill(&self, value: &dyn Fn(&str) -> Result<String, RenderError>) -> Result<String, RenderError> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Blank { name, shape } => text.push_str(&escaped(name, &value(name)?, *shape)?),
            }
        }
        Ok(text)
    }
}

/// Fills in a template. A dotted name looks into tables: `{issue.number}`.
pub fn render(template: &Template, context: &Value) -> Result<Key, RenderError> {
    let text = template.fill(&|name| plain(name, context))?;
    Ok(Key::parse(&text)?)
}

fn plain(name: &str, context: &Value) -> Result<String, RenderError> {
    let found = name.split('.').try_fold(context, |value, part| value.get(part));
    match found {
        None => Err(RenderError::Missing { name: name.to_owned() }),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(RenderError::NotPlain { name: name.to_owned() }),
    }
}

/// A value as a part of a key. A part that is `.` or `..` would be taken out when the key is settled, escaped or
/// not, and two things would be one lock: it is refused.
fn escaped(name: &str, value: &str, shape: Shape) -> Result<String, RenderError> {
    let parts: Vec<&str> = match shape {
        Shape::Segment => vec![value],
        Shape::Path => value.split('/').collect(),
    };
    if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return Err(RenderError::Empty { name: name.to_owned() });
    }
    Ok(parts.into_iter().map(escape).collect::<Vec<_>>().join("/"))
}

fn escape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn split(text: &str) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let Some(mark) = rest.find(['{', '}']) else {
            parts.push(Part::Text(rest.to_owned()));
            break;
        };
        if mark > 0 {
            parts.push(Part::Text(rest[..mark].to_owned()));
        }
        at += mark;
        if text[at..].starts_with('}') {
            return Err(TemplateError::Close(at));
        }
        let end = text[at..].find('}').ok_or(TemplateError::Open(at))?;
        let shape = if is_start(&text[..at]) { Shape::Path } else { Shape::Segment };
        parts.push(blank(&text[at + 1..at + end], shape).ok_or(TemplateError::Name(at))?);
        at += end + 1;
    }
    Ok(parts)
}

/// Whether this is all that stands before the name of a thing: `github://`.
fn is_start(before: &str) -> bool {
    before.strip_suffix("://").is_some_and(|scheme| !scheme.contains(['/', '{']))
}

fn blank(inner: &str, shape: Shape) -> Option<Part> {
    let (name, shape) = match inner.strip_suffix('*') {
        Some(name) => (name, Shape::Path),
        None => (inner, shape),
    };
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    name.split('.').all(is_word).then(|| Part::Blank { name: name.to_owned(), shape })
}

fn check_start(parts: &[Part]) -> Result<(), TemplateError> {
    match parts.first() {
        Some(Part::Text(text)) if text.contains(':') => Ok(()),
        _ => Err(TemplateError::Scheme),
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| {
            de::Error::custom(format_args!(
                "not a key with blanks: {error}; write it like github://{{repo}}/issues/{{number}}"
            ))
        })
    }
}

impl JsonSchema for Template {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A key with blanks that the trigger fills in: github://{repo}/issues/{number}. A value is one part of a path; after // or with *, as in {file*}, it may have slashes.",
            "type": "string",
            "maxLength": TEMPLATE_BYTES_MAX
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(template: &str, context: &Value) -> Result<String, RenderError> {
        render(&Template::parse(template).unwrap(), context).map(|key| key.as_str().to_owned())
    }

    #[test]
    fn blanks_are_filled_from_the_trigger() {
        let context = json!({"repo": "acme/app", "number": 42, "issue": {"id": "x1"}});
        let cases = [
            ("github://{repo}/issues/{number}", "github://acme/app/issues/42"),
            ("job:{issue.id}", "job:x1"),
            ("deploy://api-prod", "deploy://api-prod"),
            ("file:///srv/{repo*}", "file:///srv/acme/app"),
            ("file:///srv/{repo}", "file:///srv/acme%2Fapp"),
        ];
        for (template, expected) in cases {
            assert_eq!(rendered(template, &context).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn a_value_adds_no_part_and_leaves_none() {
        for value in ["a/b", "a?b", "a#b", "a%2fb", "a b", "a:b@c", "é", "a/../b", "a\\b", "{x}"] {
            let key = rendered("doc://shelf/{value}/end", &json!({"value": value})).unwrap();
            let parts: Vec<&str> = key.split('/').collect();
            assert_eq!(parts.len(), 5, "{value:?} made {key}");
            assert_eq!(parts[4], "end");
        }
    }

    #[test]
    fn different_values_are_different_keys() {
        let values = ["a/b", "a%2Fb", "a%252Fb", "a b", "a+b", "a%20b", "A", "a"];
        let keys: std::collections::BTreeSet<String> = values
            .iter()
            .map(|value| rendered("doc://shelf/{value}", &json!({"value": value})).unwrap())
            .collect();
        assert_eq!(keys.len(), values.len());
    }

    #[test]
    fn a_value_that_names_nothing_takes_no_lock() {
        for value in ["", ".", ".."] {
            let error = rendered("doc://shelf/{value}/x", &json!({"value": value})).unwrap_err();
            assert_eq!(error, RenderError::Empty { name: "value".into() }, "{value:?}");
        }
        for value in ["../x", "a//b", "/a", "a/", "a/.."] {
            let error = rendered("doc://shelf/{value*}", &json!({"value": value})).unwrap_err();
            assert_eq!(error, RenderError::Empty { name: "value".into() }, "{value:?}");
        }
        assert!(rendered("doc://shelf/{value}", &json!({"value": "a\u{0}b"})).is_err());
        assert!(rendered("doc://shelf/{value}", &json!({"value": "a\u{202e}b"})).is_err());
    }

    #[test]
    fn what_the_trigger_lacks_is_named() {
        let missing = rendered("job:{issue.number}", &json!({"issue": {}})).unwrap_err();
        assert_eq!(missing, RenderError::Missing { name: "issue.number".into() });
        let list = rendered("job:{x}", &json!({"x": [1]})).unwrap_err();
        assert_eq!(list, RenderError::NotPlain { name: "x".into() });
    }

    #[test]
    fn a_wrong_template_is_refused_when_it_is_read() {
        let cases = [
            ("{scheme}://x", TemplateError::Scheme),
            ("no-scheme", TemplateError::Scheme),
            ("job:{open", TemplateError::Open(4)),
            ("job:close}", TemplateError::Close(9)),
            ("job:{}", TemplateError::Name(4)),
            ("job:{a b}", TemplateError::Name(4)),
            ("job:{a{b}}", TemplateError::Name(4)),
            ("job:{a..b}", TemplateError::Name(4)),
        ];
        for (text, expected) in cases {
            assert_eq!(Template::parse(text), Err(expected), "{text}");
        }
        assert_eq!(Template::parse(&format!("job:{}", "x".repeat(600))), Err(TemplateError::TooLong));
        assert!(matches!(Template::parse("job:{a} b"), Err(TemplateError::Key(_))));
        assert!(matches!(Template::parse("http://u@{host}/x"), Err(TemplateError::Key(_))));
    }
}
