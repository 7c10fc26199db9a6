//! What is stored of a delivery: something that was told from outside and verified, and what came of it.
//!
//! It is kept under the time it came, for lists, and found by source and id ([`DeliveryKey`]): what is told twice is one
//! delivery.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Wall;
use super::agent::AgentName;
use super::job::JobId;

/// Bytes of a body that are kept, for looking at it and for replaying it: nearly all are smaller, and with the largest
/// payload of a job it still fits into what one commit may carry.
pub const MAX_KEPT_BYTES: usize = 256 << 10;

/// Agents whose reasons are kept beside those that want it: enough to find out why the one that was meant does not.
pub const MAX_UNWANTED: usize = 50;

/// Names a delivery: the same id of the same source again is the same delivery again. A copy shares the texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DeliveryKey {
    /// The name of the source in the settings.
    pub source: Arc<str>,
    /// The id that the source gave, or the digest of the body.
    #[serde(rename = "delivery")]
    pub id: Arc<str>,
}

/// A source has no slash in its name, so no two of these are one text.
impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source, self.id)
    }
}

/// The stored record of a delivery. Its body is stored behind the rest as it came.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// Which.
    #[serde(flatten)]
    pub key: DeliveryKey,
    /// When it first came.
    pub at: Wall,
    /// What happened, as the source calls it.
    pub event: String,
    /// What was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Where: a repository, a project, a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The agents that want it, and the first of those that listen to its source and do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Judged>,
    /// How many more agents do not want it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: usize,
    /// That an operator told it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// The headers that its source reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// How large the body was.
    pub bytes: usize,
    /// The body; `None`: it is larger than what is kept.
    #[serde(skip)]
    pub body: Option<Arc<[u8]>>,
}

/// What came of one agent's filters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The agent.
    pub agent: AgentName,
    /// Each of its filters. One that matches is enough.
    pub filters: Vec<Judgement>,
    /// The job that it got; `None`: it does not want it, or its queue was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}

/// What came of one filter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// Whether it matched.
    pub matched: bool,
    /// Each of its fields, with `+` or `-` in front.
    pub reasons: Vec<String>,
}

/// That an operator told a delivery again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// The id of the delivery that it repeats.
    pub of: String,
    /// Who did it, if they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What came of a delivery. The words are stable: programs match on them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryVerdict {
    /// Jobs were made of it.
    Queued,
    /// It had come before, and nothing was left to make of it.
    Duplicate,
    /// No agent wants it.
    Unmatched,
    /// The queue of an agent that wants it is full: told again, it makes the job that is missing.
    Full,
}

impl DeliveryVerdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Duplicate => "duplicate",
            Self::Unmatched => "unmatched",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for DeliveryVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Judged {
    /// Whether the agent wants it.
    pub fn matched(&self) -> bool {
        self.filters.iter().any(|filter| filter.matched)
    }
}

impl Delivery {
    /// What came of it. A record is of the first time, so it is never a duplicate.
    pub fn verdict(&self) -> DeliveryVerdict {
        if self.agents.iter().any(|agent| agent.matched() && agent.job.is_none()) {
            DeliveryVerdict::Full
        } else if self.agents.iter().any(|agent| agent.job.is_some()) {
            DeliveryVerdict::Queued
        } else {
            DeliveryVerdict::Unmatched
        }
    }

    /// The jobs that were made of it, by agent.
    pub fn jobs(&self) -> impl Iterator<Item = (&AgentName, &JobId)> {
        self.agents.iter().filter_map(|agent| Some((&agent.agent, agent.job.as_ref()?)))
    }

    /// The job that an agent got of it.
    pub fn job_of(&self, agent: &AgentName) -> Option<&JobId> {
        self.jobs().find(|(of, _)| *of == agent).map(|(_, job)| job)
    }

    /// What was known, judged as it is told now: an agent may want it by now, and another may be gone that has a job of
    /// it. Agents `without` a job got none, whatever is told.
    pub(super) fn as_known(&self, known: Option<&Self>, without: &[AgentName]) -> Self {
        let told = self.agents.iter().cloned().map(|judged| {
            let before = known.and_then(|known| known.job_of(&judged.agent)).cloned();
            let now = judged.job.filter(|_| !without.contains(&judged.agent));
            Judged { job: before.or(now), ..judged }
        });
        let is_told = |agent: &AgentName| self.agents.iter().any(|judged| judged.agent == *agent);
        let gone = known.into_iter().flat_map(|known| &known.agents);
        let gone = gone.filter(|old| old.job.is_some() && !is_told(&old.agent)).cloned();
        let agents = told.chain(gone).collect();
        Self { agents, unlisted: self.unlisted, ..known.unwrap_or(self).clone() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
