//! Sizes in bytes.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const UNITS: [(&str, u64); 4] = [("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10), ("", 1)];

/// A size: a number of bytes, or text such as `64K`, `512M`, `2G` (powers of 1024; `MiB` and `MB` mean `M`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(u64);

impl Size {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Reads a whole number with a unit; without one it is bytes.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = unit.trim().trim_end_matches('b').trim_end_matches('i');
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        number.parse::<u64>().ok()?.checked_mul(factor).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.into_iter().find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        let (unit, factor) = exact.unwrap_or(("", 1));
        f.pad(&format!("{}{}", self.0 / factor, unit.to_ascii_uppercase()))
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, such as 512M")
            }
            fn visit_u64<E>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| {
                    E::custom(format_args!(
                        "{text:?} is not a size; write 64K, 512M, 2G or a number of bytes"
                    ))
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size: a number of bytes, or text such as 64K, 512M, 2G (powers of 1024).",
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+ *([KkMmGg]i?)?[Bb]?$"}]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let cases =
            [("1024", "1K"), ("512M", "512M"), ("2GiB", "2G"), ("64kb", "64K"), ("100", "100"), ("0", "0")];
        for (given, expected) in cases {
            assert_eq!(Size::parse(given).unwrap().to_string(), expected, "{given}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "M", "-1", "1.5G", "1T", "99999999999G"] {
            assert_eq!(Size::parse(text), None, "{text}");
        }
    }
}
