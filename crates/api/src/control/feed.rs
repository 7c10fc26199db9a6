//! What happens, as it happens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::history::Row;

/// Asks for what happens: from now on, unless a position or a moment is given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// After this event: the `id` of the last one that was heard. The header `Last-Event-ID` says the same, and goes
    /// before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// From this moment on, where no position is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Only what happens to this agent, or to the whole fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only these kinds, with commas between them, as in `run,skip`; all, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<String>,
}

/// One thing that happened, and where it stands in the order of all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FeedEvent {
    /// Where to go on from, with any daemon of the fleet and after any restart. Nothing can be read from it.
    pub id: String,
    /// What happened.
    #[serde(flatten)]
    pub row: Row,
}
