//! What is wrong with a project, and where.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

/// Problems kept for one file. A file with more is broken as a whole, and nobody reads further.
pub const PROBLEMS_MAX: usize = 50;

/// Where something stands: a file, relative to the project, and if known the line and column, from 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Place {
    /// The file, relative to the project.
    pub file: Arc<Path>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl Place {
    /// A file as a whole.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { file: path.into().into(), line: None, column: None }
    }

    /// A spot in the same file.
    pub fn at(&self, line: u32, column: u32) -> Self {
        Self { file: Arc::clone(&self.file), line: Some(line), column: Some(column) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        Ok(())
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// What it is about can't be used.
    Error,
    /// It can be used, but probably not as somebody wishes.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The name that may have been meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl Problem {
    /// Something that can't be used.
    pub fn error(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place, message: message.into(), hint: None, nearest: None }
    }

    /// Something that can be used.
    pub fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Whether what it is about can't be used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// `file:line:column: error: message (did you mean …?)`; the hint is shown apart.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {severity}: {}", self.place, self.message)?;
        match &self.nearest {
            Some(name) => write!(f, " (did you mean {name:?}?)"),
            None => Ok(()),
        }
    }
}

/// Line and column of a byte in a text, both from 1; columns count characters.
pub fn line_and_column(text: &str, byte: usize) -> (u32, u32) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// Where the lines of a text begin, for finding many places in it.
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// As [`line_and_column`], without going through the whole text.
    pub(crate) fn find(&self, byte: usize) -> (u32, u32) {
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let (_, column) = line_and_column(self.text.get(start..).unwrap_or_default(), byte - start.min(byte));
        (u32::try_from(line).unwrap_or(u32::MAX), column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_as_compilers_write_it() {
        let file = Place::file("agents/a/SKILL.md");
        assert_eq!(file.to_string(), "agents/a/SKILL.md");
        assert_eq!(file.at(4, 11).to_string(), "agents/a/SKILL.md:4:11");
        let problem = Problem { nearest: Some("scale".into()), ..Problem::error(file.at(4, 1), "no") };
        assert_eq!(problem.to_string(), "agents/a/SKILL.md:4:1: error: no (did you mean \"scale\"?)");
    }

    #[test]
    fn columns_count_characters_and_lines_begin_after_a_break() {
        let text = "ab\näö = 1\r\nz";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 3), (2, 1));
        assert_eq!(line_and_column(text, text.find('=').unwrap()), (2, 4));
        assert_eq!(line_and_column(text, text.len()), (3, 2));
        assert_eq!(line_and_column(text, 4), (2, 1), "inside a character");
        assert_eq!(line_and_column(text, 999), (3, 2));
        let lines = Lines::new(text);
        for byte in 0..text.len() + 1 {
            assert_eq!(lines.find(byte), line_and_column(text, byte), "{byte}");
        }
    }
}
