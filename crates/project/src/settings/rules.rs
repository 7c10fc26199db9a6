//! When to try again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Length;

/// When a job whose run did not succeed is tried again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// How often a job is tried in all; 1 is once.
    pub attempts: u32,
    /// The ends after which it is tried again.
    pub on: Vec<FailureClass>,
    /// How long to wait before the second try; twice as long before each further one.
    pub backoff: Length,
    /// The longest wait between two tries.
    pub max: Length,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            on: vec![FailureClass::Lost],
            backoff: Length::from_secs(10),
            max: Length::from_secs(600),
        }
    }
}

/// How a run can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// It ended by itself, with an exit code other than 0.
    Failed,
    /// A signal ended it that was not Bellwether's.
    Crashed,
    /// Its time was up.
    Timeout,
    /// Nobody knows how it ended: its node or its supervisor died.
    Lost,
    /// The daemon was told to stop before it was done.
    Interrupted,
    /// A lock that it must have before it starts was held by another.
    Busy,
    /// It could not be started.
    Unstartable,
}
