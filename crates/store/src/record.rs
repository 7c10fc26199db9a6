//! Names, records and snapshots: what a store keeps and how it is handed out.

use std::collections::BTreeMap;
use std::fmt;

pub use bell_core::time::{Revision, Timestamp, Version};
use serde::{Deserialize, Serialize};

/// The name of a record: UTF-8, compared byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(Box<str>);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Box<str>>> From<T> for Name {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a store keeps under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The bytes that were put.
    pub value: Vec<u8>,
    /// The revision of the commit that last wrote this record.
    pub version: Version,
    /// The revision of the commit that last put this record with [`crate::Stamp::New`]. Fences come
    /// from it: known only to the commit itself, unchanged by later renewals.
    pub stamp: Revision,
}

/// Records as of one revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Every commit up to this one is reflected, and none after it.
    pub revision: Revision,
    /// The store's clock when it answered.
    pub now: Timestamp,
    /// Those that exist.
    pub records: BTreeMap<Name, Record>,
    /// For scans: the limit was reached and there are more.
    pub more: bool,
}

impl Snapshot {
    /// The version of a record, zero if it does not exist here.
    pub fn version(&self, name: &str) -> Version {
        self.records.get(name).map_or(0, |record| record.version)
    }
}
