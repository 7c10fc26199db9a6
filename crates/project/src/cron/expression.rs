//! A cron expression, apart from any time zone.

use std::fmt;
use std::sync::Arc;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{DateTime, date};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes in an expression: every value of every field written out fits.
const EXPRESSION_BYTES_MAX: usize = 512;
/// From here a next time is looked for when an expression is read. Any day would do: leap years and weekdays
/// come round in 400 years, and the search goes on for longer than that.
const FIRST_LOOK: DateTime = date(2000, 1, 1).at(0, 0, 0, 0);

/// A cron expression that has a next time.
#[derive(Clone)]
pub struct Expression {
    text: Arc<str>,
    cron: Arc<Cron>,
    hours: Hours,
}

/// What the hour field says, which decides what happens when clocks change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hours {
    /// It names hours.
    Fixed,
    /// It begins with `*`.
    Every,
}

/// Why a text is no cron expression. The words read after the text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExpressionError {
    /// Not five fields, and no nickname.
    #[error("has {0} fields instead of 5")]
    Fields(usize),
    /// A nickname that nobody knows, or one that is no time, such as `@reboot`.
    #[error("is none of @hourly, @daily, @weekly, @monthly, @yearly")]
    Nickname,
    /// A field that can't be read.
    #[error("can't be read: {0}")]
    Field(String),
    /// A date that never comes, such as the 31st of February.
    #[error("never comes: no day is like that")]
    Never,
    /// More bytes than any expression needs.
    #[error("is longer than {EXPRESSION_BYTES_MAX} bytes")]
    TooLong,
}

impl Expression {
    /// Reads an expression, and makes sure that it has a next time.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(ExpressionError::TooLong);
        }
        let text = text.trim();
        let fields = plain_fields(text)?;
        let hours = match fields.split_whitespace().nth(1) {
            Some(hour) if hour.starts_with('*') => Hours::Every,
            _ => Hours::Fixed,
        };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(&fields).map_err(|error| ExpressionError::Field(words(&error)))?;
        let expression = Self { text: text.into(), cron: Arc::new(cron), hours };
        match expression.civil_after(FIRST_LOOK) {
            Some(_) => Ok(expression),
            None => Err(ExpressionError::Never),
        }
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn hours(&self) -> Hours {
        self.hours
    }

    /// The next time on a clock without changes, strictly after `clock`.
    pub(super) fn civil_after(&self, clock: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&clock, false).ok()
    }

    /// The next time on a clock without changes, at `clock` or after it.
    pub(super) fn civil_from(&self, clock: DateTime) -> Option<DateTime> {
        self.cron.find_next_occurrence(&clock, true).ok()
    }
}

/// Five fields, with nicknames written out.
fn plain_fields(text: &str) -> Result<String, ExpressionError> {
    if text.starts_with('@') {
        let fields = match text.to_ascii_lowercase().as_str() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            _ => return Err(ExpressionError::Nickname),
        };
        return Ok(fields.to_owned());
    }
    match text.split_whitespace().count() {
        5 => Ok(text.to_owned()),
        count => Err(ExpressionError::Fields(count)),
    }
}

fn words(error: &croner::errors::CronError) -> String {
    use croner::errors::CronError;
    let text = match error {
        CronError::InvalidPattern(text)
        | CronError::IllegalCharacters(text)
        | CronError::ComponentError(text) => text.clone(),
        _ => error.to_string(),
    };
    text.trim_end_matches('.').to_owned()
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| {
            let shown: String = text.chars().take(64).collect();
            de::Error::custom(format_args!(
                "{shown:?} {error}; write minute, hour, day, month and weekday, such as \"0 9 * * MON-FRI\""
            ))
        })
    }
}

impl JsonSchema for Expression {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CronExpression".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A cron expression: minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly, @monthly, @yearly.",
            "type": "string",
            "maxLength": EXPRESSION_BYTES_MAX
        })
    }
}
