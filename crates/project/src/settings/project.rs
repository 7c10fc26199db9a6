//! `config.toml` of a project.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IsolationLevel, Length, OnStop, StoreUrl, WebhookSource, Zone};

/// The settings of a project: `config.toml` in its folder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectSettings {
    /// Where everything is kept. A relative path is below the project. Default: `sqlite:.bell/bell.db`.
    pub store: Option<StoreUrl>,
    /// Where locks are kept. A relative path is below the project. Default: the store.
    pub locks: Option<StoreUrl>,
    /// The time zone of schedules, for agents that name none.
    pub timezone: Zone,
    /// Runs of all agents together, on all nodes: a hard cap. Default: no cap.
    pub scale: Option<u32>,
    /// Runs of one agent at one time, for agents that say nothing.
    pub default_agent_scale: u32,
    /// Jobs that may wait for one agent.
    pub work_queue_size: u32,
    /// What happens to a job that finds the queue full.
    pub overflow: Overflow,
    /// What happens to waiting jobs when the fleet is stopped.
    pub on_stop: OnStop,
    /// How often in a row a run may ask to be run again.
    pub max_reruns: u32,
    /// How deep agents may call each other.
    pub max_call_depth: u32,
    /// How long a lock of a run lasts without renewal, in seconds.
    pub resource_lock_timeout: Length,
    /// How long history and logs are kept, in days.
    pub history_retention_days: u32,
    /// How long a stop waits for runs to end before it ends them.
    pub stop_timeout: Length,
    /// The user that runs run as, for agents that say nothing. Default: the daemon's. A daemon of root takes the owner of the
    /// project, or the user `bell` if it can write the project; as root only with `root`.
    pub user: Option<String>,
    /// What runs are kept away from, for agents that say nothing: `default`, `strict` or `none`.
    pub isolation: IsolationLevel,
    /// Whether runs may change what defines the fleet, for agents that say nothing.
    pub edits_project: bool,
    /// How runs on this machine are treated.
    pub local: Local,
    /// The HTTP gateway.
    pub gateway: Gateway,
    /// Where deliveries come from: `[webhooks.<source>]`, received at `/webhooks/<source>`.
    pub webhooks: BTreeMap<String, WebhookSource>,
}

impl Default for ProjectSettings {
    fn default() -> Self {
        Self {
            store: None,
            locks: None,
            timezone: Zone::utc(),
            scale: None,
            default_agent_scale: 1,
            work_queue_size: 100,
            overflow: Overflow::default(),
            on_stop: OnStop::default(),
            max_reruns: 10,
            max_call_depth: 3,
            resource_lock_timeout: Length::from_secs(1_800),
            history_retention_days: 14,
            stop_timeout: Length::from_secs(300),
            user: None,
            isolation: IsolationLevel::default(),
            edits_project: false,
            local: Local::default(),
            gateway: Gateway::default(),
            webhooks: BTreeMap::new(),
        }
    }
}

/// What happens to a job that finds the queue full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The job that has waited longest is dropped; it can be replayed.
    #[default]
    DropOldest,
    /// The new job is refused; a webhook is answered 503.
    Reject,
}

/// How runs on this machine are treated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Local {
    /// How long a run may take, for agents that say nothing, in seconds.
    pub timeout: Length,
    /// How long a run that is told to end (SIGTERM) may take to do so.
    pub grace: Length,
}

impl Default for Local {
    fn default() -> Self {
        Self { timeout: Length::from_secs(900), grace: Length::from_secs(10) }
    }
}

/// The HTTP gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gateway {
    /// The port; 0 takes a free one. So does 8080, with a warning, if somebody has it.
    pub port: u16,
    /// The address. Default: 127.0.0.1, which only this machine can reach.
    pub bind: IpAddr,
    /// Must be true for an address that other machines can reach.
    pub expose: bool,
    /// Further names that the gateway is called by, as a proxy before it has. Requests for others are refused.
    pub hosts: Vec<String>,
    /// Who may read `/metrics`: `key` (any API key) or `open` (whoever reaches the port).
    pub metrics: MetricsAccess,
}

/// Who may read `/metrics`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricsAccess {
    /// Who has an API key.
    #[default]
    Key,
    /// Whoever reaches the port.
    Open,
}

impl Gateway {
    /// The port of whoever does not choose one.
    pub const PORT: u16 = 8080;
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            port: Self::PORT,
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            expose: false,
            hosts: Vec::new(),
            metrics: MetricsAccess::default(),
        }
    }
}
