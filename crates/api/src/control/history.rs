//! What happened.

use bell_core::work::agent::AgentName;
use bell_core::work::job::JobId;
use bell_core::work::run::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// What kind of thing happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A job was accepted.
    Trigger,
    /// A run ended.
    Run,
    /// A tick of a schedule did not become a job.
    Skip,
    /// A job left the queue without being run.
    Drop,
    /// A job that was over was queued again.
    Replay,
    /// The fleet or an agent was paused or resumed.
    Pause,
    /// An operator said how many of an agent may run.
    Scale,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Trigger, Self::Run, Self::Skip, Self::Drop, Self::Replay, Self::Pause, Self::Scale];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Run => "run",
            Self::Skip => "skip",
            Self::Drop => "drop",
            Self::Replay => "replay",
            Self::Pause => "pause",
            Self::Scale => "scale",
        }
    }
}

/// Asks what happened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// From this moment on; a day ago, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Only what happened before this moment: `at_ms` of the first row of an earlier answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_ms: Option<u64>,
    /// Only what happened to this agent, or to the whole fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only these kinds, with commas between them, as in `skip,drop`; all, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<String>,
    /// At most so many: the last ones. 100, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// What happened, the latest last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// From when on.
    pub since_ms: u64,
    /// What happened.
    pub rows: Vec<Row>,
    /// Whether there was more since then than is told: what is missing came earlier.
    pub more: bool,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// When, for people.
    pub at: String,
    /// What kind of thing.
    pub kind: Kind,
    /// To which agent; absent: to the whole fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub agent: Option<AgentName>,
    /// To which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub job: Option<JobId>,
    /// To which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
    /// What, and why.
    pub says: String,
}
