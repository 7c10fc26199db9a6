//! Numbers of processors.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const PER_CPU: u32 = 100;

/// More than any machine has.
const MAX: u32 = 100_000 * PER_CPU;

/// A number of processors in hundredths, such as 1.5: what container engines take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cpus(u32);

impl Cpus {
    /// So many whole processors.
    pub const fn whole(count: u32) -> Self {
        Self(count.saturating_mul(PER_CPU))
    }

    /// So many hundredths of a processor.
    pub const fn from_hundredths(hundredths: u32) -> Self {
        Self(hundredths)
    }

    /// The number of hundredths of a processor.
    pub const fn hundredths(self) -> u32 {
        self.0
    }

    /// Reads a number with at most two decimals, of at least 0.01.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 2 {
            return None;
        }
        let part = part.parse::<u32>().ok()? * if part.len() == 1 { 10 } else { 1 };
        let hundredths = whole.parse::<u32>().ok()?.checked_mul(PER_CPU)?.checked_add(part)?;
        (1..=MAX).contains(&hundredths).then_some(Self(hundredths))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / PER_CPU, self.0 % PER_CPU);
        match part {
            0 => f.pad(&whole.to_string()),
            part if part.is_multiple_of(10) => f.pad(&format!("{whole}.{}", part / 10)),
            part => f.pad(&format!("{whole}.{part:02}")),
        }
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Cpus;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of processors, such as 1.5")
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Cpus, E> {
                self.visit_str(&count.to_string())
            }
            fn visit_f64<E: de::Error>(self, count: f64) -> Result<Cpus, E> {
                self.visit_str(&count.to_string())
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cpus, E> {
                Cpus::parse(text).ok_or_else(|| {
                    E::custom(format_args!(
                        "{text:?} is not a number of processors; write 2, 1.5 or 0.25, at least 0.01"
                    ))
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Cpus {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cpus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of processors, such as 2 or 1.5, with at most two decimals.",
            "anyOf": [{"type": "number", "minimum": 0.01}, {"type": "string", "pattern": "^[0-9]+([.][0-9]{1,2})?$"}]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_in_hundredths() {
        for (given, hundredths, shown) in [
            ("2", 200, "2"),
            ("1.5", 150, "1.5"),
            ("0.25", 25, "0.25"),
            ("3.05", 305, "3.05"),
            ("1.0", 100, "1"),
        ] {
            let cpus = Cpus::parse(given).unwrap();
            assert_eq!((cpus.hundredths(), cpus.to_string().as_str()), (hundredths, shown), "{given}");
        }
    }

    #[test]
    fn what_is_no_number_of_processors_is_refused() {
        for text in ["", "0", "0.0", "0.001", "-1", "1.", ".5", "1e3", "two", "99999999999"] {
            assert_eq!(Cpus::parse(text), None, "{text}");
        }
    }
}
