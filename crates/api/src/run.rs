//! What a run says of itself, as JSON.

use bell_core::work::run::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Says what the run is doing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    /// In words for people, at most 64 KiB.
    pub text: String,
}

/// Gives a value to whoever called the run. The last one counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReturnRequest {
    /// The value, at most 64 KiB.
    pub value: String,
}

/// Ends the run: every process of it, as if its main process had ended with this code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRequest {
    /// 0: it has completed. Anything else: it has failed.
    pub code: u8,
}

/// That something was noted for a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunAnswer {
    /// How it ended.
    pub outcome: Outcome,
    /// The run.
    #[schemars(with = "String")]
    pub run: RunId,
}
