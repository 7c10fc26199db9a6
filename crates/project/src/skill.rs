//! `SKILL.md`: frontmatter between two lines of `---`, then the instructions (C2).
//!
//! The fields of the Agent Skills format are checked by its rules. Ours stand at the top level, or as text under
//! `metadata`, so that a file can pass the format's own validator, which knows no other fields:
//!
//! | in `metadata` | means |
//! | --- | --- |
//! | `"3"`, `"true"` | the number, or yes, where one is wanted |
//! | `"a b"`, `"a, b"` | a list of plain words, where a list is wanted |
//! | `"[\"a b\"]"`, `"{\"max\": 3}"` | a list or a table, as JSON |
//!
//! Other names under `metadata` are other people's, and left alone.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::name::AgentName;
use crate::nearest::nearest;
use crate::node::{Entry, Node, Typing, Value, parse_yaml, read, snake};
use crate::problem::{Place, Problem, line_and_column};

/// The fields of the Agent Skills format.
const SKILL_FIELDS: &[&str] =
    &["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
/// Characters in a description, and in a note on compatibility: the format's own limits.
const DESCRIPTION_CHARS_MAX: usize = 1024;
const COMPATIBILITY_CHARS_MAX: usize = 500;

/// The fields of the Agent Skills format.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Skill {
    /// The agent's name: that of its folder.
    pub name: String,
    /// What it does, and when.
    pub description: String,
    /// The licence.
    pub license: Option<String>,
    /// What it needs around it.
    pub compatibility: Option<String>,
    /// Other people's notes, and ours as text.
    pub metadata: BTreeMap<String, Scalar>,
    /// Tools that it may use, separated by spaces.
    pub allowed_tools: Option<String>,
}

/// A plain value, as text.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text: metadata holds nothing else")
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// A `SKILL.md`, taken apart.
#[derive(Debug)]
pub struct SkillFile {
    /// The fields of the Agent Skills format.
    pub skill: Skill,
    /// Our settings in it, as written: still to be merged and read.
    pub settings: Node,
    /// The instructions.
    pub instructions: String,
}

/// Takes a `SKILL.md` apart. `known` are the names of our settings.
pub fn parse(
    bytes: &[u8],
    file: &Place,
    name: &AgentName,
    known: &[&'static str],
    problems: &mut Vec<Problem>,
) -> Option<SkillFile> {
    let text = text(bytes, file, problems)?;
    let (frontmatter, instructions) = split(text, file, problems)?;
    let root = parse_yaml(frontmatter, file, 2, problems)?;
    if !matches!(root.value, Value::Table(_)) {
        let problem = Problem::error(root.place, "the frontmatter is not a table of names and values");
        problems.push(problem.hint(START_HINT));
        return None;
    }
    let (skill_node, settings) = divide(&root, known, problems);
    let (skill, _) = read::<Skill>(&skill_node, &[], problems);
    check(&skill, &skill_node, name, problems);
    Some(SkillFile { skill, settings, instructions: instructions.to_owned() })
}

const START_HINT: &str =
    "Begin the file with a line of ---, then name: and description:, then another line of ---.";

/// Text without the mark that some editors put first.
fn text<'a>(bytes: &'a [u8], file: &Place, problems: &mut Vec<Problem>) -> Option<&'a str> {
    let wrong = match std::str::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            None => return Some(text.strip_prefix('\u{FEFF}').unwrap_or(text)),
            Some(at) => (at, "holds a NUL", text),
        },
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            (error.valid_up_to(), "is not UTF-8", std::str::from_utf8(valid).unwrap_or_default())
        }
    };
    let (line, column) = line_and_column(wrong.2, wrong.0);
    let problem = Problem::error(file.at(line, column), wrong.1);
    problems.push(problem.hint("Save the file as UTF-8 text."));
    None
}

/// What stands between the lines of `---`, and what follows them.
fn split<'a>(text: &'a str, file: &Place, problems: &mut Vec<Problem>) -> Option<(&'a str, &'a str)> {
    let is_mark = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if !is_mark(first) {
        problems.push(Problem::error(file.at(1, 1), "has no frontmatter").hint(START_HINT));
        return None;
    }
    let mut end = first.len();
    for line in lines {
        if is_mark(line) {
            return Some((&text[first.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
    }
    let problem = Problem::error(file.at(1, 1), "the frontmatter has no end");
    problems.push(problem.hint("Put a line of --- after it."));
    None
}

/// The fields of the format, and our settings: those at the top level, and those under `metadata`.
fn divide(root: &Node, known: &[&'static str], problems: &mut Vec<Problem>) -> (Node, Node) {
    let (skill, mut ours): (Vec<Entry>, Vec<Entry>) =
        root.entries().iter().cloned().partition(|entry| SKILL_FIELDS.contains(&entry.key.as_str()));
    let metadata = skill.iter().find(|entry| entry.key == "metadata").map(|entry| entry.node.entries());
    for entry in metadata.unwrap_or_default() {
        let name = snake(&entry.key);
        if known.contains(&name.as_str()) {
            if ours.iter().any(|other| snake(&other.key) == name) {
                let message = format!("{:?} is given at the top level too", entry.key);
                problems.push(Problem::error(entry.place.clone(), message).hint("Keep one of them."));
                continue;
            }
            let node = Node { typing: Typing::Loose, ..entry.node.clone() };
            ours.push(Entry { node, ..entry.clone() });
        } else if let Some(meant) = nearly(&name, known) {
            let message = format!("metadata {:?} is no setting", entry.key);
            let mut problem = Problem::warning(entry.place.clone(), message);
            problem.nearest = Some(meant.to_owned());
            problems.push(problem);
        }
    }
    let table = |entries| Node::new(Value::Table(entries), root.place.clone());
    (table(skill), table(ours))
}

/// Under `metadata` every name is allowed, so only a plain slip is worth a word.
fn nearly<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let is_like = |other: &&str| {
        name.len() >= 5
            && name.len().abs_diff(other.len()) <= 1
            && name.chars().next() == other.chars().next()
    };
    nearest(name, known.iter().copied().filter(is_like))
}

fn check(skill: &Skill, node: &Node, name: &AgentName, problems: &mut Vec<Problem>) {
    // Something else than text has been refused before.
    let is_text = |field: &str| node.get(field).is_some_and(|node| matches!(node.value, Value::Text(_)));
    let place = |field: &str| node.get(field).map_or(&node.place, |node| &node.place).clone();
    if node.get("name").is_none() {
        let problem = Problem::error(node.place.clone(), "\"name\" is missing");
        problems.push(problem.hint(format!("Add name: {name}")));
    } else if is_text("name") && skill.name != name.as_str() {
        let shown: String = skill.name.chars().take(64).collect();
        let problem = Problem::error(place("name"), format!("the name {shown:?} is not that of the folder"));
        problems.push(problem.hint(format!("Write name: {name}, or rename the folder.")));
    }
    let length = skill.description.trim().chars().count();
    if node.get("description").is_none() {
        let problem = Problem::error(node.place.clone(), "\"description\" is missing");
        problems.push(problem.hint("Say in a sentence what the agent does, and when."));
    } else if is_text("description") && !(1..=DESCRIPTION_CHARS_MAX).contains(&length) {
        let message = format!("the description has {length} characters, not 1 to {DESCRIPTION_CHARS_MAX}");
        problems.push(Problem::error(place("description"), message));
    }
    let compatibility = skill.compatibility.as_deref().unwrap_or_default().chars().count();
    if compatibility > COMPATIBILITY_CHARS_MAX {
        let message = format!("compatibility has more than {COMPATIBILITY_CHARS_MAX} characters");
        problems.push(Problem::error(place("compatibility"), message));
    }
}
