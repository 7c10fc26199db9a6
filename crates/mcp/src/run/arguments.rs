//! What each tool of a run is told. The comments are what a model reads.
//!
//! A field that nobody knows is refused, so that a misspelt one is never left out in silence. Optional fields have a plain
//! type in the schema: several programs can't read `null` there.

use bell_api::ask::Mode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::shape::without_default;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acquire {
    /// What to lock: 1 to 16 URIs, for example github://acme/app/issues/42. All of them are taken, or none.
    pub(crate) keys: Vec<String>,
    /// "exclusive" (the default) excludes everybody else; "shared" excludes exclusive holders only.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["exclusive", "shared"], "default" = "exclusive"))]
    pub(crate) mode: Mode,
    /// How long to wait if somebody else has it. 0, the default, answers at once. One call lasts 55 seconds at the most and
    /// then answers "waiting".
    #[serde(default)]
    pub(crate) wait_seconds: u64,
    /// How long the lock lasts unless renewed. Leave it out for what the project says.
    #[serde(default)]
    #[schemars(with = "u64", transform = without_default)]
    pub(crate) ttl_seconds: Option<u64>,
    /// Only after "waiting": the request_id of that answer, to keep the place in the queue.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) request_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    /// The key to give back.
    pub(crate) key: String,
    /// Only the lease with this fence.
    #[serde(default)]
    #[schemars(with = "u64", transform = without_default)]
    pub(crate) fence: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renew {
    /// The key to keep.
    pub(crate) key: String,
    /// Only the lease with this fence.
    #[serde(default)]
    #[schemars(with = "u64", transform = without_default)]
    pub(crate) fence: Option<u64>,
    /// Another length from now on.
    #[serde(default)]
    #[schemars(with = "u64", transform = without_default)]
    pub(crate) ttl_seconds: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// Only keys that start so. All, if nothing is said.
    #[serde(default)]
    pub(crate) prefix: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// The agent to call, by its name in this project.
    pub(crate) agent: String,
    /// What to tell it: an object, whose fields it finds in its trigger.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub(crate) context: Map<String, Value>,
    /// Repeated with the same id, a call is made once.
    #[serde(default)]
    #[schemars(with = "String", transform = without_default)]
    pub(crate) request_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// The job that call_agent answered with.
    pub(crate) job: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// The job that call_agent answered with.
    pub(crate) job: String,
    /// How long to wait: 55 at the most, and if nothing is said.
    #[serde(default = "as_long_as_possible")]
    pub(crate) wait_seconds: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    /// What this run is doing, in a few words for people.
    pub(crate) text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Return {
    /// The value, at most 64 KiB: plain text, or JSON as text.
    // Models give an object here now and then, and mean its JSON.
    #[schemars(with = "String")]
    pub(crate) value: Value,
}

fn as_long_as_possible() -> u64 {
    bell_client::client::POLL.as_secs()
}
