//! Questions about locks, whose routes read their queries name by name; and answers that have no type of their own.

use schemars::JsonSchema;

/// Asks for locks.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its shape is used")]
pub(super) struct LocksQuery {
    /// Only keys that start so.
    pub(super) prefix: Option<String>,
    /// After this key: the last of an earlier answer.
    pub(super) after: Option<String>,
    /// At most so many; a thousand, if nothing is said, which is also the most.
    pub(super) limit: Option<u64>,
}

/// Follows locks.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its shape is used")]
pub(super) struct WatchQuery {
    /// Only keys that start so.
    pub(super) prefix: Option<String>,
    /// After this revision: the `id` of the last event. The header `Last-Event-ID` says the same, and goes before it.
    pub(super) after: Option<u64>,
}

/// Asks for one lock.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its shape is used")]
pub(super) struct LockQuery {
    /// The key.
    pub(super) key: String,
}

/// Asks whether locks have changed.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its shape is used")]
pub(super) struct ChangesQuery {
    /// Only keys that start so.
    pub(super) prefix: Option<String>,
    /// After this revision: that of an earlier answer. Without it, the revision is told at once.
    pub(super) after: Option<u64>,
    /// How long to wait for a change, in milliseconds; one call waits 55 s at the most.
    pub(super) wait_ms: Option<u64>,
}
