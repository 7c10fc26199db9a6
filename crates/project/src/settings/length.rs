//! Lengths of time.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The longest length that can be set. Whatever takes longer is another agent's work.
pub const MAX_LENGTH: Duration = Duration::from_secs(366 * 86_400);

/// A length of time: a number of seconds, or text such as `1500ms`, `30s`, `10m`, `2h`, `7d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Length(Duration);

impl Length {
    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// The length.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Reads a number with a unit; without one it is seconds.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = if unit.is_empty() { "s" } else { unit };
        let (_, unit_ms) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let seconds = number.parse::<f64>().ok()? * unit_ms as f64 / 1_000.0;
        Self::from_seconds(seconds)
    }

    fn from_seconds(seconds: f64) -> Option<Self> {
        let length = Duration::try_from_secs_f64(seconds).ok()?;
        // Rounded, so that it can be written and read again: nothing is measured more finely.
        let ms = u64::try_from(length.as_millis()).ok()?;
        (length <= MAX_LENGTH).then_some(Self(Duration::from_millis(ms)))
    }
}

/// The largest unit that needs no fraction.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let exact = UNITS.into_iter().find(|(_, unit_ms)| ms > 0 && ms.is_multiple_of(*unit_ms));
        let (unit, unit_ms) = exact.unwrap_or(("s", 1_000));
        f.pad(&format!("{}{unit}", ms / unit_ms))
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Length;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time, such as 30s or 10m")
            }
            fn visit_u64<E: de::Error>(self, secs: u64) -> Result<Length, E> {
                self.visit_f64(secs as f64)
            }
            fn visit_i64<E: de::Error>(self, secs: i64) -> Result<Length, E> {
                self.visit_f64(secs as f64)
            }
            fn visit_f64<E: de::Error>(self, secs: f64) -> Result<Length, E> {
                Length::from_seconds(secs).ok_or_else(|| wrong(&secs))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Length, E> {
                Length::parse(text).ok_or_else(|| wrong(&format_args!("{text:?}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn wrong<E: de::Error>(given: &dyn fmt::Display) -> E {
    E::custom(format_args!(
        "{given} is not a length of time; write 1500ms, 30s, 10m, 2h, 7d or a number of seconds, at most a year"
    ))
}

impl JsonSchema for Length {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length of time: a number of seconds, or text such as 1500ms, 30s, 10m, 2h, 7d.",
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "^[0-9.]+(ms|s|m|h|d)?$"}]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_every_unit_and_written_in_the_largest_exact_one() {
        let cases = [
            ("90", "90s"),
            ("1500ms", "1500ms"),
            ("60s", "1m"),
            ("1.5h", "90m"),
            ("24h", "1d"),
            ("0", "0s"),
            ("366d", "366d"),
        ];
        for (given, expected) in cases {
            let length = Length::parse(given).unwrap();
            assert_eq!(length.to_string(), expected);
            assert_eq!(Length::parse(expected), Some(length));
        }
    }

    #[test]
    fn what_is_no_length_is_refused() {
        for text in ["", "s", "-1", "+1", "1e400", "nan", "inf", "10 parsecs", "1s2", "367d", ".5s"] {
            assert_eq!(Length::parse(text), None, "{text}");
        }
    }
}
