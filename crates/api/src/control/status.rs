//! How a fleet stands, agent by agent.

use bell_core::work::agent::AgentName;
use bell_core::work::run::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Asks how the fleet stands.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusQuery {
    /// Only this agent, and the locks that its runs have to do with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// How a fleet stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// Daemons that are there, on any machine.
    pub daemons: usize,
    /// What runs, in the whole fleet.
    pub running: usize,
    /// What has ended without a word, and is ended as lost by the next daemon that looks.
    pub lost: usize,
    /// How many may run in the whole fleet; absent: as many as the agents allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// Waiting jobs of the listed agents. Without a filter by agent, also those of agents that the project lacks.
    pub waiting: u32,
    /// Why nothing may start, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Mistakes in the files of the project.
    pub broken: usize,
    /// What needs an operator, at most a hundred entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attention: Vec<Attention>,
    /// The agents.
    pub agents: Vec<AgentStatus>,
    /// Keys that are held or waited for, a hundred at the most.
    pub locks: Vec<LockStatus>,
    /// Whether there are more locks than are told.
    pub more_locks: bool,
}

/// Something that needs an operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Attention {
    /// What kind of thing it is, for programs.
    pub kind: AttentionKind,
    /// What it is about: for a broken file `path:line:column`, relative to the project.
    pub subject: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Kinds of things that need an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// A file of the project has an error. A running daemon keeps the last good version; an agent without one does not run.
    BrokenFile,
    /// Jobs wait for an agent that the project does not have, or can't use. They wait until it is there again.
    JobsWithoutAgent,
    /// The files of the store were removed or replaced under the daemon, which refuses everything until it is started again.
    StoreReplaced,
    /// The store answers with a lower revision than it had: it was set back to an older copy. Commits are refused.
    StoreWentBack,
    /// The runs of an agent are not isolated, as its settings say.
    NotIsolated,
    /// This machine can isolate runs only in part.
    IsolatedInPart,
    /// This machine can't isolate the runs of an agent, so they are not started.
    CanNotIsolate,
    /// The runs of an agent may change what defines the fleet.
    EditsProject,
}

impl AttentionKind {
    /// Whether a store is not used until an operator acts.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::StoreReplaced | Self::StoreWentBack)
    }
}

/// How an agent stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentStatus {
    /// Its name.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// How many of it may run at once; 0: it is disabled.
    pub scale: u32,
    /// That an operator has said so, if one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Scaled>,
    /// How many of it run.
    pub running: usize,
    /// Its runs, by name.
    #[schemars(with = "Vec<String>")]
    pub runs: Vec<RunId>,
    /// How many of its jobs wait.
    pub waiting: u32,
    /// How many may wait.
    pub queue_size: u32,
    /// Why nothing of it may start, if it is paused by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Its schedule, as written, with its time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// When its schedule fires next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The next five times it fires.
    pub fires: Vec<String>,
}

/// That an operator has said how many of an agent may run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Scaled {
    /// How many its settings say.
    pub default: u32,
    /// Since when.
    pub since_ms: u64,
    /// In whose words.
    pub reason: String,
}

/// A key that is held or waited for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockStatus {
    /// The key.
    pub key: String,
    /// Who holds it; the first of those who share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The run of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The fence of the holder's lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// How long it has been held, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// How many share it beside the holder.
    pub shared_with: usize,
    /// How many wait for it.
    pub waiting: usize,
}

/// The agents of a project.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentsAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The agents that can be run, by name.
    pub agents: Vec<AgentShown>,
}

/// One agent of a project.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentShown,
}

/// An agent: what it is for, and how it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentShown {
    /// How it stands.
    #[serde(flatten)]
    pub status: AgentStatus,
    /// What it is for, as its `SKILL.md` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How long a run of it may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Sources of webhooks that it listens to.
    pub webhooks: Vec<String>,
}
