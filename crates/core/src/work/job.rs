//! What is stored of a job: one thing for one agent to do, accepted once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wall;
use super::agent::AgentName;
use super::line::Place;
use super::run::{Class, End, RunId};
use crate::key::Key;
use crate::session::{SessionId, text_id};
use crate::time::Timestamp;

/// Names a job; never used twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Arc<str>);

text_id!(JobId);

/// What somebody wants done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// By whom.
    pub agent: AgentName,
    /// Why.
    pub trigger: Trigger,
    /// What follows from how a run ends.
    #[serde(default)]
    pub rules: Rules,
}

/// Why there is a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trigger {
    /// Its time had come.
    Cron {
        /// The time it was due at, by its schedule.
        nominal: Wall,
    },
    /// Somebody outside told.
    Webhook {
        /// Who: the name of the source in the configuration.
        source: Arc<str>,
        /// Which telling of theirs.
        delivery: Arc<str>,
    },
    /// Another agent asked.
    Call {
        /// The run that asked.
        caller: RunId,
        /// How many calls led to this one; 1: by a run that nobody had called.
        depth: u32,
    },
    /// A person asked.
    Manual {
        /// Who, if they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl Trigger {
    /// The word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cron { .. } => "cron",
            Self::Webhook { .. } => "webhook",
            Self::Call { .. } => "call",
            Self::Manual { .. } => "manual",
        }
    }

    /// Whether a run for it may ask to be run again.
    pub fn may_rerun(&self) -> bool {
        matches!(self, Self::Cron { .. } | Self::Manual { .. })
    }

    /// How many calls led here.
    pub fn depth(&self) -> u32 {
        match self {
            Self::Call { depth, .. } => *depth,
            Self::Cron { .. } | Self::Webhook { .. } | Self::Manual { .. } => 0,
        }
    }
}

/// What follows from how a run ends. Kept with the job, so that any node can carry it out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    /// How often it is run again because a run asked for it.
    #[serde(skip_serializing_if = "is_default")]
    pub max_reruns: u32,
    /// How often it is tried again after a run that failed.
    #[serde(skip_serializing_if = "is_default")]
    pub retries: u32,
    /// After which failures.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub retry_on: BTreeSet<Class>,
    /// How long to wait before the first retry, in milliseconds; doubled with each further one.
    #[serde(skip_serializing_if = "is_default")]
    pub backoff_ms: u64,
    /// The longest wait, in milliseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub max_backoff_ms: u64,
}

impl Rules {
    /// How long to wait before trying again after this failure, of which there have been `failures` with it;
    /// `None`: it is not tried again.
    pub fn retry_after(&self, class: Class, failures: u32) -> Option<Duration> {
        if !self.retry_on.contains(&class) || failures > self.retries {
            return None;
        }
        let doublings = failures.saturating_sub(1).min(u64::BITS - 1);
        let wait = self.backoff_ms.saturating_mul(1 << doublings);
        Some(Duration::from_millis(wait.min(self.max_backoff_ms.max(self.backoff_ms))))
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How long a job waits that could not be started for the first time: most trouble that passes (a server that fails over,
/// a burst of connections) is over by then.
const START_BACKOFF: Duration = Duration::from_millis(500);

/// The longest such wait: a job of a fleet that is well again starts at most this much later.
const START_BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How long to wait before trying to start something again that could not be started `times` times in a row.
pub fn start_backoff(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(u32::BITS - 1);
    START_BACKOFF.saturating_mul(1 << doublings).min(START_BACKOFF_MAX)
}

/// The stored record of a job. What came with its trigger is a record of its own, since it can be large and
/// never changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What is wanted.
    #[serde(flatten)]
    pub spec: JobSpec,
    /// When it was accepted.
    pub accepted: Wall,
    /// What leads to this job only, however often it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<String>,
    /// Where it stands.
    pub state: State,
    /// Its latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    /// How many runs it has had.
    #[serde(default)]
    pub runs: u32,
    /// How many of them were asked for by the run before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reruns: u32,
    /// How many of them failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u32,
    /// How many of the latest runs in a row were not started because of trouble that passes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_started: u32,
    /// While it is queued: not to be claimed before this, on the store's clock. A reader that does not know this field
    /// claims it earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// While it is queued: the locks that it waits for. A reader that does not know this field takes the job from the queue,
    /// and its run ends as busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_wait: Option<LockWait>,
    /// What the latest run returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
}

/// That a queued job waits for the locks its agent declares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockWait {
    /// The session that waits. While it lives nobody else waits for the job; the run gets it.
    pub session: SessionId,
    /// The keys.
    pub keys: Vec<Key>,
    /// Since when, whichever session waited.
    pub since: Wall,
    /// When the job is given up, on the store's clock.
    pub until: Timestamp,
}

impl Job {
    /// A job that was just accepted.
    pub fn new(spec: JobSpec, accepted: Wall, state: State) -> Self {
        Self {
            spec,
            accepted,
            once: None,
            state,
            last_run: None,
            runs: 0,
            reruns: 0,
            failures: 0,
            not_started: 0,
            not_before: None,
            lock_wait: None,
            returned: None,
        }
    }

    /// How long it is not to be claimed yet. A time that is too far away was meant on a clock that was set back since.
    pub fn start_wait(&self, now: Timestamp) -> Option<Duration> {
        let wait = self.not_before?.since(now);
        (!wait.is_zero() && wait <= START_BACKOFF_MAX).then_some(wait)
    }
}

/// Where a job stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// In the queue of its agent.
    Queued {
        /// Its place there.
        place: Place,
    },
    /// It failed, and will be queued again.
    Delayed {
        /// When, on the store's clock.
        due: Timestamp,
    },
    /// Being done.
    Running {
        /// By this run.
        run: RunId,
    },
    /// Nothing more will happen, unless somebody replays it.
    Over {
        /// What became of it.
        fate: Fate,
        /// Since when. What was not done is listed under this time.
        at: Wall,
    },
}

/// What became of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// It was run, and the last run ended so.
    Ended {
        /// How.
        end: End,
    },
    /// The queue was full, and it was the oldest.
    Dropped,
    /// The fleet was stopped before its turn came.
    Cleared,
    /// Somebody took it out of the queue.
    Cancelled,
}

impl Fate {
    /// Whether it is listed among what was not done, to be replayed or let go.
    pub fn is_undone(&self) -> bool {
        match self {
            Self::Ended { end } => end.class().is_some(),
            Self::Dropped | Self::Cleared => true,
            Self::Cancelled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let retry_on = BTreeSet::from([Class::Failed, Class::Lost]);
        Rules { retries: 4, retry_on, backoff_ms: 1_000, max_backoff_ms: 5_000, ..Rules::default() }
    }

    #[test]
    fn each_retry_waits_twice_as_long_up_to_a_limit_and_there_is_a_last_one() {
        let waits: Vec<_> = (1..=5).map(|failures| rules().retry_after(Class::Failed, failures)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(waits, [ms(1_000), ms(2_000), ms(4_000), ms(5_000), None]);
    }

    #[test]
    fn what_can_not_be_started_is_tried_again_after_twice_as_long_up_to_a_limit() {
        let waits = [1, 2, 3, 6, 7, u32::MAX].map(|times| start_backoff(times).as_millis());
        assert_eq!(waits, [500, 1_000, 2_000, 16_000, 30_000, 30_000]);
    }

    #[test]
    fn a_failure_of_another_class_is_not_retried() {
        assert_eq!(rules().retry_after(Class::Timeout, 1), None);
        assert_eq!(Rules::default().retry_after(Class::Failed, 1), None);
    }

    #[test]
    fn a_great_many_failures_do_not_overflow_the_wait() {
        let rules = Rules { retries: u32::MAX, max_backoff_ms: u64::MAX, ..rules() };
        assert!(rules.retry_after(Class::Lost, u32::MAX).is_some());
    }
}
