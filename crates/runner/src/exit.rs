//! How a run ended: one of a fixed list of reasons, and what is known about it.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::isolation::Means;

/// Why a run is over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    /// The agent ended by itself with code 0.
    Completed,
    /// The agent ended by itself with another code.
    Failed {
        /// Its exit code.
        code: i32,
    },
    /// A signal that the supervisor did not send ended the agent.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// The run took longer than it may.
    Timeout,
    /// Somebody asked for its end.
    Killed {
        /// Who, or why.
        why: String,
    },
    /// The run lost its right to go on: its fence was raised, or its session is gone.
    Revoked {
        /// What was lost.
        why: String,
    },
    /// The supervisor itself was told to stop.
    Interrupted,
    /// The run used more than it may.
    Limit {
        /// Of what.
        what: Resource,
    },
    /// The agent never ran.
    NotStarted {
        /// Why not.
        error: Error,
    },
    /// The supervisor died: nobody saw how the agent ended.
    Lost {
        /// What was found instead.
        why: String,
    },
}

/// What a run may use only so much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Seconds of processor time, over all processes of the run.
    Cpu,
    /// Memory, over all processes of the run.
    Memory,
    /// Processes at one time.
    Processes,
}

impl Reason {
    /// The reason in one word, as history and metrics have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::Signalled { .. } => "signalled",
            Self::Timeout => "timeout",
            Self::Killed { .. } => "killed",
            Self::Revoked { .. } => "revoked",
            Self::Interrupted => "interrupted",
            Self::Limit { .. } => "limit",
            Self::NotStarted { .. } => "not_started",
            Self::Lost { .. } => "lost",
        }
    }

    /// What to do next.
    pub fn next(&self) -> &str {
        match self {
            Self::Completed => "Nothing: it is done.",
            Self::Failed { .. } => "Read the last lines of its output; they are the agent's own words.",
            Self::Signalled { .. } => {
                "Look in the kernel's log for a crash or for the killer that frees memory."
            }
            Self::Timeout => "Give the agent more time, or less to do in one run.",
            Self::Killed { .. } => "Run it again if its end was not meant.",
            Self::Revoked { .. } => "Look who holds its locks now; its late writes are refused.",
            Self::Interrupted => "Run it again: it was stopped, not finished.",
            Self::Limit { .. } => "Raise that limit for the agent, or look what it used it for.",
            Self::NotStarted { error } => error.advice(),
            Self::Lost { .. } => "Look at what it left behind before running it again.",
        }
    }

    /// Whether the agent did what it was started for, as far as its exit code says.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Completed)
    }
}

/// The end of a run, as it is kept in `exit.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// The run.
    pub run: String,
    /// Tells this start of the run from any other.
    pub nonce: String,
    /// Why it is over.
    pub reason: Reason,
    /// The exit code of the agent's main process, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended the agent's main process, whoever sent it.
    pub signal: Option<i32>,
    /// When the agent started, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// When its last process was gone, in milliseconds since 1970.
    pub ended_ms: u64,
    /// What the run used.
    pub usage: Usage,
    /// How much the agent printed.
    pub output_bytes: u64,
    /// Whether some of what it printed was not kept.
    pub truncated: bool,
    /// Whether processes outlived the agent's main process and had to be ended.
    pub left_behind: bool,
    /// What could not be confirmed to be gone, such as a container whose engine does not answer.
    pub unconfirmed: Option<String>,
    /// How the run was isolated; nothing, if it was not.
    #[serde(default)]
    pub isolation: Option<Means>,
}

/// What the processes of a run used, as far as the kernel counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of all processes, in milliseconds.
    pub cpu_ms: u64,
    /// The most memory that one process had at one time.
    pub peak_memory_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn every_reason() -> Vec<Reason> {
        let why = || "why".to_owned();
        vec![
            Reason::Completed,
            Reason::Failed { code: 3 },
            Reason::Signalled { signal: 11 },
            Reason::Timeout,
            Reason::Killed { why: why() },
            Reason::Revoked { why: why() },
            Reason::Interrupted,
            Reason::Limit { what: Resource::Memory },
            Reason::NotStarted { error: Error::new(Kind::NotFound, "run it").hint("Install it.") },
            Reason::Lost { why: why() },
        ]
    }

    #[test]
    fn every_reason_is_written_under_the_word_it_is_called_by() {
        for reason in every_reason() {
            let written = serde_json::to_value(&reason).unwrap();
            assert_eq!(written["kind"], reason.word());
            assert_eq!(serde_json::from_value::<Reason>(written).unwrap(), reason);
        }
    }

    #[test]
    fn every_reason_says_what_to_do_next_and_only_one_is_success() {
        assert!(every_reason().iter().all(|reason| !reason.next().is_empty()));
        assert_eq!(every_reason().iter().filter(|reason| reason.is_success()).count(), 1);
    }
}
