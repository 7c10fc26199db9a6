//! What each tool of operators is told. The comments are what a model reads.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::shape::without_default;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    /// Only this agent. The whole fleet, if nothing is said.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) agent: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    /// Only runs of this agent.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) agent: Option<String>,
    /// How many, 100 at the most. 20, if nothing is said.
    #[serde(default)]
    #[schemars(with = "usize", transform = without_default)]
    pub(crate) limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// A run, as list_runs names it; or an agent, for its latest run.
    pub(crate) run: String,
    /// How many lines from the end, 1000 at the most. 100, if nothing is said.
    #[serde(default)]
    #[schemars(with = "usize", transform = without_default)]
    pub(crate) lines: Option<usize>,
    /// Only lines with this text in them.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) contains: Option<String>,
    /// Only what was printed after this offset: the "next" of an earlier answer.
    #[serde(default)]
    pub(crate) from: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// The agent, as list_agents names it.
    pub(crate) agent: String,
    /// Words for the agent: what this run is about.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) prompt: Option<String>,
    /// More to tell it: an object, whose fields it finds in its trigger.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>", transform = without_default)]
    pub(crate) context: Option<Map<String, Value>>,
    /// How long to wait for its result, 55 at the most. 0, the default, answers at once.
    #[serde(default)]
    pub(crate) wait_seconds: u64,
    /// Repeated with the same id, it is run once.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) request_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    /// Only this agent. The whole fleet, if nothing is said.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) agent: Option<String>,
    /// Why, for people who wonder later.
    pub(crate) reason: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    /// This agent. The whole fleet, if nothing is said.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) agent: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    /// The run, as list_runs names it.
    pub(crate) run: String,
    /// Why, for its record.
    pub(crate) reason: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Break {
    /// The key of the lock, as list_locks shows it.
    pub(crate) key: String,
    /// Why: its holder and the audit log get to read it.
    pub(crate) reason: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// An agent, a run, a job, the key of a lock, or a tick of a schedule (AGENT@TIME).
    pub(crate) of: String,
}
