//! What can be set, each with its default, its unit and its doc. The reference page and the JSON Schema are
//! made from these structs.

mod agent;
mod cpus;
mod home;
mod length;
mod limits;
mod project;
mod rules;
mod size;
mod url;
mod webhook;
mod zone;

pub use agent::{AgentSettings, Catchup, IsolationLevel, OnBusy, OnStop, Overlap, Run};
pub use cpus::Cpus;
pub use home::HomeSetting;
pub use length::{Length, MAX_LENGTH};
pub use limits::{Container, Keep, Limits, Paths, Runtime, Worktree};
pub use project::{Gateway, Local, MetricsAccess, Overflow, ProjectSettings};
pub use rules::{FailureClass, Retry};
pub use size::Size;
pub use url::StoreUrl;
pub(crate) use webhook::check as check_webhook;
pub use webhook::{SignatureEncoding, Unsigned, WebhookKind, WebhookRule, WebhookSource};
pub use zone::Zone;
