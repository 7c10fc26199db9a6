//! Which home the runs of an agent have.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The home of an agent's runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HomeSetting {
    /// That of the user they run as.
    Inherit,
    /// One of the agent's own, kept between runs.
    Own,
    /// This folder, relative to the project.
    At(PathBuf),
}

impl HomeSetting {
    /// Reads a setting. A path has a slash in it, so that no mistyped word is one.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "inherit" => Some(Self::Inherit),
            "own" => Some(Self::Own),
            path if path.contains('/') && !path.contains('\0') => Some(Self::At(path.into())),
            _ => None,
        }
    }
}

impl Serialize for HomeSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inherit => serializer.serialize_str("inherit"),
            Self::Own => serializer.serialize_str("own"),
            Self::At(path) => path.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for HomeSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "no home; write \"inherit\", \"own\", or a path with a slash in it, such as \"./home\"",
            )
        })
    }
}

impl JsonSchema for HomeSetting {
    fn schema_name() -> Cow<'static, str> {
        "HomeSetting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^(inherit|own|[^/]*/.*)$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_mistyped_is_no_path() {
        assert_eq!(HomeSetting::parse("own"), Some(HomeSetting::Own));
        assert_eq!(HomeSetting::parse("./own"), Some(HomeSetting::At("./own".into())));
        assert_eq!(HomeSetting::parse("inherits"), None);
        assert_eq!(HomeSetting::parse(""), None);
    }
}
