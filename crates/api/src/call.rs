//! One agent calling another, as JSON.

use bell_core::work::job::{Fate, JobId};
use bell_core::work::run::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::Outcome;

/// Calls an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The agent.
    pub agent: String,
    /// What to tell it: an object, whose fields it finds in its trigger.
    #[serde(default)]
    pub context: Value,
    /// Repeated with the same id, a call is made once: 1 to 64 letters, digits, `-`, `_`, `.` and `:`.
    pub request_id: String,
}

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It waits for its turn, or to be tried again.
    Queued,
    /// It is being done.
    Running,
    /// Its run completed.
    Completed,
    /// It ended in any other way, or was never run.
    Failed,
}

/// The answer to calling, checking and waiting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallAnswer {
    /// How the question ended: `written` for a call that was made, `listed` for a look, `waiting` if a wait is not over.
    pub outcome: Outcome,
    /// Names the call.
    #[schemars(with = "String")]
    pub job: JobId,
    /// Where it stands.
    pub state: CallState,
    /// Who does it, or did it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub fate: Option<Fate>,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
    /// What happened, for people, if it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
