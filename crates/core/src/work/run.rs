//! What is stored of a run: one try at a job, by one process tree, in one session.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Wall;
use super::agent::AgentName;
use super::job::JobId;
use crate::session::{SessionId, text_id};

/// Names a run; never used twice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Arc<str>);

text_id!(RunId);

/// The stored record of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What it is a try at.
    pub job: JobId,
    /// Whose run it is.
    pub agent: AgentName,
    /// The how-manieth run of the job; the first is 1.
    pub attempt: u32,
    /// Who it is to the locks: they end with it.
    pub session: SessionId,
    /// The machine it runs on.
    pub node: String,
    /// When it was claimed.
    pub claimed: Wall,
    /// When its supervisor began it. Before that nothing has been done, and another may do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Wall>,
    /// What it was isolated by when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolatedBy>,
    /// How it ended, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// What it said it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<String>,
    /// Somebody wants it to end, in these words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<String>,
    /// It asked to be run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_rerun: bool,
}

/// What keeps a run away from what is not its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolatedBy {
    /// A mount namespace.
    Mounts,
    /// A mount namespace in a user namespace.
    UserMounts,
    /// Landlock rules alone, which hold less.
    Landlock,
    /// The mounts of its container.
    Container,
    /// Nothing: its settings say so.
    None,
}

impl fmt::Display for IsolatedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mounts => "a mount namespace",
            Self::UserMounts => "a mount namespace in a user namespace",
            Self::Landlock => "landlock rules alone",
            Self::Container => "its container",
            Self::None => "nothing: it is not isolated",
        })
    }
}

/// That a run has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// How.
    pub end: End,
    /// When.
    pub at: Wall,
}

/// How a run can end. Every run ends in exactly one of these ways.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// The process ended with exit code 0.
    Completed,
    /// It ended with another one.
    Failed {
        /// Which.
        code: i32,
    },
    /// A signal ended it that was not Bellwether's.
    Crashed {
        /// Which.
        signal: i32,
    },
    /// It took too long.
    Timeout,
    /// Somebody ended it.
    Killed {
        /// In whose words.
        reason: String,
    },
    /// The daemon was stopped and did not wait for it.
    Interrupted,
    /// Nobody knows: its supervisor or its machine died, or its session did.
    Lost,
    /// An operator broke a lock that it must have. A reader that does not know this end refuses the record by name.
    Broken {
        /// Which lock, who broke it, and in whose words.
        reason: String,
    },
    /// A lock that it must have before it starts is held by another.
    Busy {
        /// Which, and by whom.
        reason: String,
    },
    /// It could not be started.
    Unstartable {
        /// Why not.
        reason: String,
        /// Whether another try may succeed. A reader that does not know this field takes the end for permanent, which
        /// it shows only: what became of the job is in the job's own record.
        #[serde(default, skip_serializing_if = "StartFailure::is_permanent")]
        failure: StartFailure,
    },
}

/// Where the cause lies that a run could not be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFailure {
    /// In the agent: a missing program, a wrong setting. Trying again won't help.
    #[default]
    Permanent,
    /// In the store or the machine: out of reach, out of descriptors, out of space. The agent never ran.
    Transient,
}

impl StartFailure {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
    fn is_permanent(&self) -> bool {
        *self == Self::Permanent
    }
}

/// A kind of failure, as retry rules name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// An exit code other than 0.
    Failed,
    /// A signal.
    Crashed,
    /// It took too long.
    Timeout,
    /// The daemon was stopped.
    Interrupted,
    /// Its supervisor, its machine or its session died, or a lock that it must have was broken.
    Lost,
    /// A lock was held by another.
    Busy,
    /// It could not be started.
    Unstartable,
}

impl End {
    /// The end of a run that can't be started as its agent is.
    pub fn unstartable(reason: impl Into<String>) -> Self {
        Self::Unstartable { reason: reason.into(), failure: StartFailure::Permanent }
    }

    /// The end of a run that was not started because of trouble that passes. To be said only if its agent never ran.
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self::Unstartable { reason: reason.into(), failure: StartFailure::Transient }
    }

    /// Whether the agent never ran, and may if tried again.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unstartable { failure: StartFailure::Transient, .. })
    }

    /// The one word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::Crashed { .. } => "crashed",
            Self::Timeout => "timeout",
            Self::Killed { .. } => "killed",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Broken { .. } => "broken",
            Self::Busy { .. } => "busy",
            Self::Unstartable { failure: StartFailure::Permanent, .. } => "unstartable",
            Self::Unstartable { failure: StartFailure::Transient, .. } => "not_started",
        }
    }

    /// What kind of failure it is; `None`: it succeeded, or somebody wanted it to end.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Completed | Self::Killed { .. } => None,
            Self::Failed { .. } => Some(Class::Failed),
            Self::Crashed { .. } => Some(Class::Crashed),
            Self::Timeout => Some(Class::Timeout),
            Self::Interrupted => Some(Class::Interrupted),
            Self::Lost | Self::Broken { .. } => Some(Class::Lost),
            Self::Busy { .. } => Some(Class::Busy),
            Self::Unstartable { .. } => Some(Class::Unstartable),
        }
    }

    /// What to do next.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Completed => "nothing to do",
            Self::Failed { .. } => "look at its log (bell logs RUN), then replay it (bell jobs replay JOB)",
            Self::Crashed { .. } => "look at its log and at the machine's (out of memory?), then replay it",
            Self::Timeout => "raise `timeout` of the agent, or find out in its log what took so long",
            Self::Killed { .. } => "replay it if it should be done after all (bell jobs replay JOB)",
            Self::Interrupted => "it is done again if the agent's `retry` says so; otherwise replay it",
            Self::Lost => {
                "its machine or supervisor died: it may have done part of its work; check, then replay it"
            }
            Self::Broken { .. } => {
                "an operator took its lock: it may have done part of its work; check, then replay it"
            }
            Self::Busy { .. } => "another run is at it: nothing to do, unless that one fails",
            Self::Unstartable { failure: StartFailure::Transient, .. } => {
                "nothing to do: it is tried again; if that goes on, fix what the reason says (bell doctor helps)"
            }
            Self::Unstartable { failure: StartFailure::Permanent, .. } => {
                "mend what the reason says (bell check helps), then replay it"
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        match self {
            Self::Failed { code } => write!(f, "{word} (exit code {code})"),
            Self::Crashed { signal } => write!(f, "{word} (signal {signal})"),
            Self::Killed { reason }
            | Self::Broken { reason }
            | Self::Busy { reason }
            | Self::Unstartable { reason, .. } => write!(f, "{word} ({reason})"),
            Self::Completed | Self::Timeout | Self::Interrupted | Self::Lost => f.write_str(word),
        }
    }
}
