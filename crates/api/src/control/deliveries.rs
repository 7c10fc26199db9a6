//! What was told from outside: webhooks, and what came of each.

use bell_core::work::agent::AgentName;
use bell_core::work::delivery::{Delivery, DeliveryVerdict};
use bell_core::work::job::JobId;
use bell_core::work::receive::Received;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Deliveries in one answer, at the most: a few hundred kilobytes of JSON.
pub const DELIVERIES_MAX: u32 = 1_000;

/// Asks for deliveries, the latest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveriesQuery {
    /// Only those of this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only those of which this came: `queued`, `unmatched` or `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// From this moment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Where the answer before ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many; 50 if nothing is said, 1,000 at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Deliveries, the latest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveriesAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The deliveries.
    pub deliveries: Vec<DeliveryRow>,
    /// Where to go on, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What came of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Jobs were made of it.
    Queued,
    /// It had come before, and nothing was left to make of it.
    Duplicate,
    /// No agent wants it.
    Unmatched,
    /// The queue of an agent that wants it is full. Told again, it makes the job that is missing.
    Full,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        DeliveryVerdict::from(self).word()
    }
}

impl From<DeliveryVerdict> for Verdict {
    fn from(verdict: DeliveryVerdict) -> Self {
        match verdict {
            DeliveryVerdict::Queued => Self::Queued,
            DeliveryVerdict::Duplicate => Self::Duplicate,
            DeliveryVerdict::Unmatched => Self::Unmatched,
            DeliveryVerdict::Full => Self::Full,
        }
    }
}

impl From<Verdict> for DeliveryVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Queued => Self::Queued,
            Verdict::Duplicate => Self::Duplicate,
            Verdict::Unmatched => Self::Unmatched,
            Verdict::Full => Self::Full,
        }
    }
}

/// A job that came of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MadeJob {
    /// Whose it is.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// The job.
    #[schemars(with = "String")]
    pub job: JobId,
}

/// A delivery, in a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRow {
    /// When it first came.
    pub at_ms: u64,
    /// The name of the source in the settings.
    pub source: String,
    /// The id that the source gave, or the digest of the body.
    pub delivery: String,
    /// What happened, as the source calls it.
    pub event: String,
    /// What was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Where: a repository, a project, a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What came of it.
    pub verdict: Verdict,
    /// The jobs that came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<MadeJob>,
    /// The delivery that it repeats, if an operator told it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<String>,
    /// Who told it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl DeliveryRow {
    /// A stored delivery, in a line.
    pub fn of(delivery: &Delivery) -> Self {
        let jobs = delivery.jobs().map(|(agent, job)| MadeJob { agent: agent.clone(), job: job.clone() });
        Self {
            at_ms: delivery.at.0,
            source: delivery.key.source.to_string(),
            delivery: delivery.key.id.to_string(),
            event: delivery.event.clone(),
            action: delivery.action.clone(),
            place: delivery.place.clone(),
            verdict: delivery.verdict().into(),
            jobs: jobs.collect(),
            replay_of: delivery.replay.as_ref().map(|replay| replay.of.clone()),
            by: delivery.replay.as_ref().and_then(|replay| replay.by.clone()),
        }
    }
}

/// Everything that is on record of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryShown {
    /// `listed`.
    pub outcome: Outcome,
    /// In a line.
    #[serde(flatten)]
    pub row: DeliveryRow,
    /// The agents that want it, and some of those that listen to its source and do not.
    pub agents: Vec<AgentJudged>,
    /// How many more agents do not want it.
    #[serde(default)]
    pub unlisted: u64,
    /// The headers that say something. Those that prove something are not kept.
    pub headers: Vec<HeaderShown>,
    /// How large the body was.
    pub bytes: u64,
    /// The body; absent if it is larger than what is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// A header of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeaderShown {
    /// Its name.
    pub name: String,
    /// What it says.
    pub value: String,
}

/// What came of one agent's filters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentJudged {
    /// The agent.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// Whether it wants it: one filter that matches is enough.
    pub matched: bool,
    /// Its filters, in the order of its settings.
    pub filters: Vec<FilterJudged>,
    /// The job that it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub job: Option<JobId>,
}

/// What came of one filter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FilterJudged {
    /// Whether it matched.
    pub matched: bool,
    /// Each of its fields, with `+` or `-` in front.
    pub reasons: Vec<String>,
}

impl DeliveryShown {
    /// Everything of a stored delivery.
    pub fn of(delivery: &Delivery) -> Self {
        let agents = delivery.agents.iter().map(|judged| AgentJudged {
            agent: judged.agent.clone(),
            matched: judged.matched(),
            filters: judged
                .filters
                .iter()
                .map(|filter| FilterJudged { matched: filter.matched, reasons: filter.reasons.clone() })
                .collect(),
            job: judged.job.clone(),
        });
        let header =
            |(name, value): &(String, String)| HeaderShown { name: name.clone(), value: value.clone() };
        let body = delivery.body.as_deref().map(|body| String::from_utf8_lossy(body).into_owned());
        Self {
            outcome: Outcome::Listed,
            row: DeliveryRow::of(delivery),
            agents: agents.collect(),
            unlisted: u64::try_from(delivery.unlisted).unwrap_or(u64::MAX),
            headers: delivery.headers.iter().map(header).collect(),
            bytes: u64::try_from(delivery.bytes).unwrap_or(u64::MAX),
            body,
        }
    }
}

/// Asks for one delivery.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryQuery {
    /// Of this source; needed if two sources gave the same id, or if it is no longer in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Tells a delivery again: as a new one, to the agents that want it now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedeliverRequest {
    /// Of this source; needed if two sources gave the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Who, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What came of a delivery: what its sender hears, and who tells one again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryAnswer {
    /// `written`: it is stored.
    pub outcome: Outcome,
    /// The name of the source in the settings.
    pub source: String,
    /// The id of the delivery.
    pub delivery: String,
    /// What came of it.
    pub verdict: Verdict,
    /// The jobs that came of it, now or when it came before.
    pub jobs: Vec<MadeJob>,
}

impl DeliveryAnswer {
    /// What came of the delivery of this source and id.
    pub fn new(source: &str, delivery: &str, received: &Received) -> Self {
        let jobs =
            received.jobs.iter().map(|(agent, job)| MadeJob { agent: agent.clone(), job: job.clone() });
        Self {
            outcome: Outcome::Written,
            source: source.to_owned(),
            delivery: delivery.to_owned(),
            verdict: received.verdict.into(),
            jobs: jobs.collect(),
        }
    }
}
