//! What operators do.
//!
//! `by` is who did it in their own words, such as the user of the command line: it stands on record beside the name of the
//! key, and proves nothing.

use bell_core::work::job::{Fate, JobId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape::FateShape;
use crate::outcome::Outcome;

/// Lets nothing new start. What runs goes on, and what is asked for waits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Only of this agent; the whole fleet, if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Why, for whoever wonders; `by hand`, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Lets a paused fleet or agent go on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// This agent; the fleet, if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Ends a run: its whole process tree gets TERM, and KILL after its grace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KillRequest {
    /// Why, for its record; `by hand`, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Has an agent run now, or as soon as a runner is free.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerRequest {
    /// Words for the agent, in its trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What else to tell it: an object, whose fields it finds in its trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<serde_json::Map<String, Value>>,
    /// Repeated with the same id, it is accepted once: 1 to 64 letters, digits, `-`, `_`, `.` and `:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// That a job was accepted: it is stored, and will be run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TriggerAnswer {
    /// `written`.
    pub outcome: Outcome,
    /// Names the job.
    #[schemars(with = "String")]
    pub job: JobId,
    /// How many are ahead of it; absent if it had been accepted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
    /// What became of it, if its end was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FateShape>")]
    pub fate: Option<Fate>,
    /// What it returned, if its end was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
}

/// Says how many of an agent may run at once, whatever its settings say, until it is said otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRequest {
    /// So many, 4,000 at the most; 0: none; null: as many as its settings say.
    pub scale: Option<u32>,
    /// Why, for whoever wonders; `by hand`, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Takes a lock from whoever holds it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakRequest {
    /// The key.
    pub key: String,
    /// Why, for its holder and for the audit log: 1 to 500 bytes.
    pub reason: String,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// An act that needs no words: cancelling, replaying and clearing jobs; reloading the project, stopping the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimpleRequest {
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Stops the daemon: nothing new starts, and what runs may finish.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Ends what runs, instead of letting it finish.
    #[serde(default)]
    pub now: bool,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What was done, in words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DoneAnswer {
    /// `written`.
    pub outcome: Outcome,
    /// What was done.
    pub message: String,
}

impl DoneAnswer {
    /// That this was done.
    pub fn new(message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Written, message: message.into() }
    }
}
