//! Time zones by name.

use std::fmt;

use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::nearest::nearest;

/// A time zone of the IANA database, such as `Europe/Berlin`. Names are as in the database; the machine's copy
/// is used where there is one, else the one that comes with the program.
#[derive(Clone, PartialEq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Zone {
    /// The zone without summer time.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    /// The zone of this name.
    pub fn find(name: &str) -> Option<Self> {
        if name == "UTC" {
            return Some(Self::utc());
        }
        let zone = TimeZone::get(name).ok()?;
        // In the spelling of the database: `europe/berlin` is found too.
        let name = zone.iana_name().unwrap_or(name).to_owned();
        Some(Self { name, zone })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The zone itself.
    pub fn get(&self) -> &TimeZone {
        &self.zone
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::find(&name).ok_or_else(|| de::Error::custom(unknown(&name)))
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let meant = nearest(name, names.iter().map(String::as_str));
    let guess = meant.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default();
    let shown: String = name.chars().take(64).collect();
    format!("no time zone is called {shown:?}{guess}; use a name of the IANA database, such as Europe/Berlin")
}

impl JsonSchema for Zone {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Zone".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A time zone of the IANA database, such as Europe/Berlin.",
            "type": "string"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_by_its_name() {
        assert_eq!(Zone::find("Europe/Berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::find("UTC"), Some(Zone::utc()));
    }

    #[test]
    fn a_name_that_is_no_zone_brings_the_nearest() {
        assert_eq!(Zone::find("Europe/Berlim"), None);
        assert!(unknown("Europe/Berlim").contains("Europe/Berlin"));
        assert_eq!(Zone::find("../../etc/passwd"), None);
    }
}
