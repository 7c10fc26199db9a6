//! What waits, and what was not done.

use bell_core::work::agent::AgentName;
use bell_core::work::job::{Fate, JobId, Trigger};
use bell_core::work::run::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::{FateShape, TriggerShape};
use crate::outcome::Outcome;

/// What waits, agent by agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueuesAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// Every queue that there has been.
    pub queues: Vec<Queue>,
}

/// The queue of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Whose it is.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// How many wait.
    pub waiting: u32,
    /// The first of them, in order, a thousand at the most.
    #[schemars(with = "Vec<String>")]
    pub jobs: Vec<JobId>,
    /// Why nothing of it may start, if it or the fleet is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

/// Asks for jobs that were not done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoneQuery {
    /// From where an earlier answer ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many; a thousand, if nothing is said, which is also the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Jobs that were not done, the latest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UndoneAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The jobs.
    pub undone: Vec<UndoneLine>,
    /// Where the rest begins, if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A job that was not done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UndoneLine {
    /// Its name.
    #[schemars(with = "String")]
    pub job: JobId,
    /// Whose it was.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// Since when.
    pub at_ms: u64,
    /// What became of it.
    #[schemars(with = "FateShape")]
    pub fate: Fate,
}

/// Replays dead letters, in this order: jobs as `GET /v1/undone` listed them.
///
/// Only the dead letter that was listed is replayed, so the same request can be sent again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// Up to 500 of them.
    pub letters: Vec<LetterToReplay>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Dead letters in one request to replay them: 25 commits, so that an answer comes within seconds on every store.
pub const REPLAYS_MAX: usize = 500;

/// A dead letter to replay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LetterToReplay {
    /// The job.
    pub job: String,
    /// Its `at_ms` in the list.
    pub at_ms: u64,
}

/// What came of replaying dead letters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplayAnswer {
    /// `written`.
    pub outcome: Outcome,
    /// What came of each, in the order of the request.
    pub results: Vec<ReplayResult>,
}

/// What came of replaying a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayResult {
    /// It is queued.
    Queued,
    /// The queue of its agent is full; it stays a dead letter.
    QueueFull,
    /// Its agent does not exist; it stays a dead letter.
    NoAgent,
    /// It is no dead letter any more: it was replayed or forgotten after it was listed.
    Gone,
}

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// In the queue of its agent.
    Queued,
    /// It failed, and will be queued again.
    Delayed,
    /// Being done.
    Running,
    /// Nothing more will happen, unless somebody replays it.
    Over,
}

/// Asks where a job stands.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobQuery {
    /// Answers when it is over, or after so many milliseconds; one call waits 55 s at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// One job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobAnswer {
    /// `listed`; `waiting`, if a wait for its end is not over.
    pub outcome: Outcome,
    /// Its name.
    #[schemars(with = "String")]
    pub job: JobId,
    /// Whose it is.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// Why there is one.
    #[schemars(with = "TriggerShape")]
    pub trigger: Trigger,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// Where it stands.
    pub state: JobState,
    /// While it is queued: the keys of the locks that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Who does it, or did it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
    /// How many runs it has had.
    pub runs: u32,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FateShape>")]
    pub fate: Option<Fate>,
    /// What its latest run returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
}
