//! What people and programs get to see: answers on stdout, talk on stderr.
//!
//! Labels and reasons are other people's words. Whatever could move a cursor or hide text is shown as an
//! escape, in plain lines and in JSON alike.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::answer::Refusal;
use crate::log_writer::LogWriter;

/// How answers are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Lines for people.
    Plain,
    /// One JSON object for each answer.
    Json,
}

/// Where answers go.
#[derive(Clone, Debug)]
pub(crate) struct Say {
    format: Format,
    store: Option<String>,
    /// What writes to stderr, if it must hold nothing up.
    log: Option<LogWriter>,
}

/// An answer with the store that it came from.
#[derive(Serialize)]
struct Sourced<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'a str>,
}

impl Say {
    /// Answers that have nothing to do with a store.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, store: None, log: None }
    }

    /// Talks without ever waiting for a reader of stderr.
    pub(crate) fn through(self, log: Option<LogWriter>) -> Self {
        Self { log, ..self }
    }

    /// Answers from this store.
    pub(crate) fn about(self, store: &str) -> Self {
        Self { store: Some(store.to_owned()), ..self }
    }

    /// How answers are written.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Gives an answer on stdout. Errors matter only to those who go on answering.
    pub(crate) fn answer<T: Serialize>(&self, answer: &T, plain: impl FnOnce() -> String) -> io::Result<()> {
        let text = match self.format {
            Format::Plain => clean_lines(&plain()),
            Format::Json => self.json(answer)?,
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// Tells something to whoever watches; not part of any answer.
    pub(crate) fn talk(&self, line: &str) {
        let line = clean(line) + "\n";
        // A stderr that is closed is no reason to end.
        let _ = match &self.log {
            Some(log) => log.clone().write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        };
    }

    /// Refuses on stdout as JSON, or on stderr in plain words. Answers the exit code.
    pub(crate) fn refuse(&self, refusal: &Refusal) -> u8 {
        match self.format {
            Format::Json => drop(self.answer(&refusal.0, String::new)),
            Format::Plain => self.refuse_plainly(refusal),
        }
        refusal.exit()
    }

    /// As [`Self::refuse`], while stdout belongs to somebody else.
    pub(crate) fn refuse_aside(&self, refusal: &Refusal) -> u8 {
        match self.format {
            Format::Json => drop(self.json(&refusal.0).map(|text| writeln!(io::stderr(), "{text}"))),
            Format::Plain => self.refuse_plainly(refusal),
        }
        refusal.exit()
    }

    fn refuse_plainly(&self, refusal: &Refusal) {
        let answer = &refusal.0;
        self.talk(&format!("bell: {}: {}", answer.outcome, answer.message.as_deref().unwrap_or_default()));
        self.talk(&format!("hint: {}", answer.hint.as_deref().unwrap_or(answer.outcome.next())));
        if let Some(store) = &self.store {
            self.talk(&format!("store: {store}"));
        }
    }

    fn json<T: Serialize>(&self, answer: &T) -> io::Result<String> {
        let text = serde_json::to_string(&Sourced { answer, store: self.store.as_deref() })?;
        Ok(text.chars().map(|c| if is_harmless(c) { c.to_string() } else { json_escape(c) }).collect())
    }
}

/// Whether a line that changes in place can be shown.
pub(crate) fn can_show_progress() -> bool {
    io::stderr().is_terminal()
}

/// One line in which nothing is hidden.
pub(crate) fn clean(line: &str) -> String {
    line.chars()
        .map(|c| if is_harmless(c) { c.to_string() } else { c.escape_unicode().to_string() })
        .collect()
}

fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Control characters move the cursor; the others turn or hide what stands around them.
fn is_harmless(c: char) -> bool {
    let hides = matches!(c, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    !c.is_control() && !hides
}

/// All of them have one UTF-16 unit. JSON text has none outside of strings.
fn json_escape(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_fool_a_terminal_is_escaped() {
        assert_eq!(clean("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(clean("a\r\nb\u{9b}c\u{202e}d"), "a\\u{d}\\u{a}b\\u{9b}c\\u{202e}d");
        assert_eq!(clean("plain é → text"), "plain é → text");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"label": "x\u{1b}\u{9b}\u{202e}\u{7f}é"});
        let text = Say::new(Format::Json).json(&value).unwrap();
        assert!(text.chars().all(is_harmless), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn an_answer_names_its_store() {
        let text = Say::new(Format::Json).about("sqlite:/x").json(&serde_json::json!({"a": 1})).unwrap();
        assert_eq!(text, r#"{"a":1,"store":"sqlite:/x"}"#);
    }
}
