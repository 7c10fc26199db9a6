//! What runs and what ran.

use bell_core::work::agent::AgentName;
use bell_core::work::job::{JobId, Trigger};
use bell_core::work::run::{End, IsolatedBy, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{EndShape, TriggerShape};
use crate::outcome::Outcome;

/// Asks for runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsQuery {
    /// Only those of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// At most so many; 20, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Runs, the latest first: those that run, then those that have ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunsAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The runs.
    pub runs: Vec<RunLine>,
}

/// A run in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunLine {
    /// Its name.
    #[schemars(with = "String")]
    pub run: RunId,
    /// Whose run it is.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// What it was a try at, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub job: Option<JobId>,
    /// How it ended; absent: it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<EndShape>")]
    pub end: Option<End>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
}

/// Everything that is on record of one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunShown {
    /// `listed`.
    pub outcome: Outcome,
    /// Its name.
    #[schemars(with = "String")]
    pub run: RunId,
    /// Whose run it is.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// What it is a try at.
    #[schemars(with = "String")]
    pub job: JobId,
    /// Why there is that job, if it is still on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TriggerShape>")]
    pub trigger: Option<Trigger>,
    /// The how-manieth run of the job; the first is 1.
    pub attempt: u32,
    /// The machine it runs on.
    pub node: String,
    /// Whether it runs: it has not ended, and its supervisor is there.
    pub alive: bool,
    /// When it was claimed.
    pub claimed_ms: u64,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ms: Option<u64>,
    /// What keeps it away from what is not its own: `mounts`, `user_mounts`, `landlock`, `container` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub isolation: Option<IsolatedBy>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<EndShape>")]
    pub end: Option<End>,
    /// What it said it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
    /// Somebody wants it to end, in these words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<String>,
    /// Keys that it holds, twenty at the most.
    pub locks: Vec<String>,
}
