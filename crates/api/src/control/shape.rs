//! How records that are stored look in an answer: only for schemas. What is sent is the record itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "End")]
pub struct EndShape {
    /// `completed`, `failed`, `crashed`, `timeout`, `killed`, `interrupted`, `lost`, `broken`, `busy` or `unstartable`.
    pub end: String,
    /// If it failed: its exit code.
    pub code: Option<i32>,
    /// If it crashed: the signal.
    pub signal: Option<i32>,
    /// If it was killed, its lock was broken, it was busy or could not be started: in whose words, or why.
    pub reason: Option<String>,
    /// `transient` if the store or a machine kept it from starting: its agent did not run, and its job is tried again.
    pub failure: Option<String>,
}

/// What became of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Fate")]
pub struct FateShape {
    /// `ended`, `dropped`, `cleared` or `cancelled`.
    pub fate: String,
    /// If a run ended it: how.
    pub end: Option<EndShape>,
}

/// Why there is a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Trigger")]
pub struct TriggerShape {
    /// `cron`, `webhook`, `call` or `manual`.
    pub kind: String,
    /// If its time had come: when it was due, in milliseconds since 1970.
    pub nominal: Option<u64>,
    /// If somebody outside told: the name of the source.
    pub source: Option<String>,
    /// If somebody outside told: which telling of theirs.
    pub delivery: Option<String>,
    /// If another agent asked: the run that did.
    pub caller: Option<String>,
    /// If another agent asked: how many calls led to this one.
    pub depth: Option<u32>,
    /// If a person asked: who, if they said.
    pub by: Option<String>,
}
