//! Why something is as it is: one sentence, the facts behind it, and what to do next.

use std::borrow::Cow;

use bell_core::work::run::{End, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::EndShape;
use crate::outcome::Outcome;

/// Asks why.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// An agent, a run, a job, the key of a lock, or a tick (`AGENT@TIME`). The start of a run's or a job's name is enough.
    pub of: String,
}

/// What a question was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WhyKind")]
pub enum Kind {
    /// An agent.
    Agent,
    /// A run.
    Run,
    /// A job.
    Job,
    /// A tick of a schedule.
    Fire,
    /// The key of a lock.
    Lock,
}

/// One thing that is so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// What it is about, in a word or two.
    pub what: Cow<'static, str>,
    /// What is so.
    pub value: String,
    /// Why, where a record says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Why something is as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// What it is about.
    pub kind: Kind,
    /// Its full name.
    pub name: String,
    /// The answer in one sentence.
    pub says: String,
    /// What it rests on.
    pub facts: Vec<Fact>,
    /// What to do next; the most likely first.
    pub next: Vec<String>,
    /// Of a job: every run of it that is on record, the first attempt first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<JobRun>,
}

/// A run of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobRun {
    /// Its name.
    #[schemars(with = "String")]
    pub run: RunId,
    /// Which run of the job it is, counted from 1.
    pub attempt: u32,
    /// The machine it runs on.
    pub node: String,
    /// When it was claimed.
    pub claimed_ms: u64,
    /// When it began; absent: nothing of it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ms: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// How it ended; absent: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<EndShape>")]
    pub end: Option<End>,
}

impl Answer {
    /// An answer without facts yet.
    pub fn new(kind: Kind, name: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            says: says.into(),
            facts: Vec::new(),
            next: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds a fact.
    pub fn fact(&mut self, what: &'static str, value: impl Into<String>) {
        self.facts.push(Fact { what: what.into(), value: value.into(), because: None });
    }

    /// Adds a fact with its reason.
    pub fn fact_because(&mut self, what: &'static str, value: impl Into<String>, because: impl Into<String>) {
        let because = Some(because.into());
        self.facts.push(Fact { what: what.into(), value: value.into(), because });
    }

    /// Adds what to do next.
    pub fn next(&mut self, what: impl Into<String>) {
        self.next.push(what.into());
    }
}

/// The answer to why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WhyAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// The store that was asked, without its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}
