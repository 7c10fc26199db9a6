//! What a run printed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Where a piece of output came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// The agent's standard output.
    Out,
    /// The agent's standard error.
    Err,
    /// Its supervisor, about the output.
    Log,
}

/// Asks for output.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// From this offset on: `next` of an earlier answer.
    #[serde(default)]
    pub from: u64,
    /// Only what was printed at this moment or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Only lines with this text in them, as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grep: Option<String>,
    /// Only this stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<LogStream>,
    /// Only the last lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// About so many bytes of output at the most; a megabyte, if nothing is said, which is also the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Goes on while the run does: the answer is a stream of events, each with a part of the output, and its `id` is where to
    /// go on. A line that is longer than 16 KiB comes in pieces then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// A part of what a run printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogAnswer {
    /// `listed`.
    pub outcome: Outcome,
    /// The run.
    pub run: String,
    /// The lines, in the order they were read.
    pub lines: Vec<LogLine>,
    /// Where to go on reading.
    pub next: u64,
    /// Whether the run is over and nothing will follow.
    pub is_last: bool,
}

/// A line of output. The text is the agent's own: who shows it on a terminal or a page makes it harmless first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Where it begins.
    pub offset: u64,
    /// When it was read from the agent.
    pub at_ms: u64,
    /// Where it came from.
    pub stream: LogStream,
    /// Whether the line ends here, or the stream's next piece goes on with it.
    pub ends: bool,
    /// What was printed. What is not UTF-8 is replaced.
    pub text: String,
}
