//! The settings of one agent.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Container, HomeSetting, Length, Limits, Overflow, Paths, Retry, WebhookRule, Worktree, Zone};
use crate::cron::Expression;
use crate::name::AgentName;
use crate::secret::{SecretList, VariableName};
use crate::template::Template;

/// The settings of one agent: in the frontmatter of its `SKILL.md` (at the top level, or as text under
/// `metadata`), or in `config.toml` beside it, which wins.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// What runs it: a command as a list, the name of a preset as text, or, without it, the executable file `run`
    /// in the agent's folder.
    pub run: Option<Run>,
    /// The model, for presets that take one.
    pub model: Option<String>,
    /// When it runs by itself: a cron expression of five fields, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    pub schedule: Option<Expression>,
    /// The time zone of the schedule. Default: the project's.
    pub timezone: Zone,
    /// How much later than its nominal time a scheduled run may start, so that not all start at once. The same
    /// nominal time always gets the same delay.
    pub jitter: Length,
    /// What happens to a scheduled run when all runners are busy.
    pub overlap: Overlap,
    /// Which scheduled runs that were missed are made up for. Default: none.
    pub catchup: Option<Catchup>,
    /// Runs at one time; 0 disables the agent. Default: `default_agent_scale` of the project.
    pub scale: u32,
    /// How long a run may take. Default: `local.timeout` of the project.
    pub timeout: Length,
    /// How long a run that is told to end may take to do so. Default: `local.grace` of the project.
    pub grace: Length,
    /// Which deliveries start it.
    pub webhooks: Vec<WebhookRule>,
    /// What the instructions can rely on: given to each run.
    pub params: BTreeMap<String, serde_json::Value>,
    /// The user to run as; another than the daemon's needs a daemon of root, or sudo without a password. Default: `user` of the
    /// project.
    pub user: Option<String>,
    /// The home of its runs: `inherit` (that of the user), `own` (one of the agent's own, kept between runs) or the path
    /// of a folder that its user can write, with a slash in it, relative to the project. Default: `own` under strict isolation,
    /// in a container and where the user's can't be written, otherwise `inherit`.
    pub home: Option<HomeSetting>,
    /// Variables of the daemon's environment that it gets too.
    pub env: Vec<VariableName>,
    /// Secrets that it gets as variables: a list of names in `.bell/secrets` or `env:NAME`, or a table from variable to
    /// reference.
    pub secrets: SecretList,
    /// Locks that are taken, all or none, before a run starts: templates over the trigger, such as
    /// `github://{repo}/issues/{number}`.
    pub locks: Vec<Template>,
    /// What happens to a job when others hold one of its `locks`. Default: `skip` for scheduled runs, else `wait`.
    pub on_busy: Option<OnBusy>,
    /// How long a job may wait for its `locks`; after that it is a dead letter.
    pub lock_wait: Length,
    /// How long its locks last without renewal. Default: `resource_lock_timeout` of the project.
    pub resource_lock_timeout: Length,
    /// When a job whose run did not succeed is tried again.
    pub retry: Retry,
    /// Jobs that may wait. Default: `work_queue_size` of the project.
    pub work_queue_size: u32,
    /// What happens to a job that finds the queue full. Default: `overflow` of the project.
    pub overflow: Overflow,
    /// What happens to waiting jobs when the fleet is stopped. Default: `on_stop` of the project.
    pub on_stop: OnStop,
    /// How often in a row a run may ask to be run again. Default: `max_reruns` of the project.
    pub max_reruns: u32,
    /// The agents that it may call. Default: every other one.
    #[schemars(schema_with = "crate::name::names_schema")]
    pub may_call: Option<Vec<AgentName>>,
    /// A git worktree of its own for each run. Default: none.
    pub worktree: Option<Worktree>,
    /// What a run may use.
    pub limits: Limits,
    /// What its runs are kept away from. `default`: `.bell`, other runs, other users' homes and processes, container engines;
    /// what defines the fleet is read-only. `strict`: all files but the agent's folder, the project, a home of its own, the system's
    /// programs and `paths`. `none`: nothing. Default: `isolation` of the project.
    pub isolation: IsolationLevel,
    /// Whether its runs may change what defines the fleet: `config.toml`, presets and the folders of agents. Default:
    /// `edits_project` of the project.
    pub edits_project: bool,
    /// What a run may touch of the file system; not in a container. Default: what its user and `isolation` let it.
    pub paths: Option<Paths>,
    /// The container that runs happen in. Default: none.
    pub container: Option<Container>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let project = super::ProjectSettings::default();
        Self {
            run: None,
            model: None,
            schedule: None,
            timezone: project.timezone,
            jitter: Length::default(),
            overlap: Overlap::default(),
            catchup: None,
            scale: project.default_agent_scale,
            timeout: project.local.timeout,
            grace: project.local.grace,
            webhooks: Vec::new(),
            params: BTreeMap::new(),
            user: project.user,
            home: None,
            env: Vec::new(),
            secrets: SecretList::default(),
            locks: Vec::new(),
            on_busy: None,
            lock_wait: Length::from_secs(3_600),
            resource_lock_timeout: project.resource_lock_timeout,
            retry: Retry::default(),
            work_queue_size: project.work_queue_size,
            overflow: project.overflow,
            on_stop: project.on_stop,
            max_reruns: project.max_reruns,
            may_call: None,
            worktree: None,
            limits: Limits::default(),
            isolation: project.isolation,
            edits_project: project.edits_project,
            paths: None,
            container: None,
        }
    }
}

/// What runs an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Run {
    /// A program and its arguments, as they are: no shell reads them.
    Command(Vec<String>),
    /// A preset for a known agent program.
    Preset(String),
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Run;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command as a list, or the name of a preset")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Run, E> {
                let is_name = !text.is_empty()
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
                if is_name { Ok(Run::Preset(text.to_owned())) } else { Err(E::custom(NOT_A_PRESET)) }
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Run, A::Error> {
                let mut words: Vec<String> = Vec::new();
                while let Some(word) = items.next_element()? {
                    words.push(word);
                }
                match words.first() {
                    None => Err(de::Error::custom("the command is empty; write [\"program\", \"argument\"]")),
                    Some(program) if program.is_empty() => Err(de::Error::custom(
                        "the program's name is empty; write [\"program\", \"argument\"]",
                    )),
                    _ if words.iter().any(|word| word.contains('\0')) => {
                        Err(de::Error::custom("an argument holds a NUL; take it out"))
                    }
                    _ => Ok(Run::Command(words)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

const NOT_A_PRESET: &str = "text is the name of a preset, and this can't be one; write a command as a list: [\"program\", \"argument\"]";

impl JsonSchema for Run {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Run".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What runs an agent: a program with its arguments, or the name of a preset.",
            "anyOf": [
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
                {"type": "string", "pattern": "^[A-Za-z0-9_.-]+$"}
            ]
        })
    }
}

/// What happens to a scheduled run when all runners are busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// It is skipped, and history says so.
    #[default]
    Skip,
    /// It waits, unless one of its kind waits already.
    QueueOne,
    /// It waits.
    Queue,
}

/// What happens to a job when others hold one of the locks that its agent declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnBusy {
    /// It waits in its queue, without a runner, and lets those pass that want other keys.
    Wait,
    /// It is over, and history says so.
    Skip,
    /// Its run ends as `busy`, which `retry` can try again; otherwise it is a dead letter.
    Fail,
}

/// Which scheduled runs that were missed are made up for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Catchup {
    /// How long ago its nominal time may be.
    pub window: Length,
    /// How many at once: the latest ones.
    pub max: u32,
}

impl Default for Catchup {
    fn default() -> Self {
        Self { window: Length::from_secs(3_600), max: 1 }
    }
}

/// What happens to waiting jobs when the fleet is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// They are cleared; each can be replayed.
    #[default]
    Clear,
    /// They wait for the next start.
    Keep,
}

/// What the runs of an agent are kept away from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationLevel {
    /// From what is Bellwether's, other runs, and other users.
    #[default]
    Default,
    /// From all files that are not named.
    Strict,
    /// From nothing.
    None,
}
