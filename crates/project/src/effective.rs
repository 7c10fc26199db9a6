//! Every setting with where it comes from. Secrets are set or not; nobody sees more.

use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use crate::agent::Agent;
use crate::capacity::{self, Capacity};
use crate::folder::Folder;
use crate::load::Loaded;
use crate::node::{Node, Value, camel};
use crate::problem::Place;
use crate::secret::SecretRef;
use crate::settings::AgentSettings;

/// A setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Its dotted name.
    pub key: String,
    /// What it is.
    pub value: Json,
    /// Where that comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody has set it.
    Default,
    /// It stands here.
    At(Place),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            // The line is enough to find it; the column would only be noise.
            Self::At(Place { file, line: Some(line), .. }) => write!(f, "{}:{line}", file.display()),
            Self::At(place) => write!(f, "{place}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Looks into the environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The settings of a project.
pub fn project(folder: &Folder, loaded: &Loaded, variable: Variable<'_>) -> Vec<Row> {
    let mut rows = rows(&loaded.settings, loaded.tree());
    for (source, settings) in &loaded.settings.webhooks {
        let Some(secrets) = &settings.secret else { continue };
        let key = format!("webhooks.{source}.secret");
        let state: Vec<Json> = secrets.0.iter().map(|secret| state(secret, folder, variable)).collect();
        for row in rows.iter_mut().filter(|row| row.key == key) {
            row.value = Json::Array(state.clone());
        }
    }
    rows
}

/// The settings of an agent on a machine.
pub fn agent(folder: &Folder, agent: &Agent, machine: Capacity, variable: Variable<'_>) -> Vec<Row> {
    let limits = capacity::limits(&agent.settings, machine);
    let settings = AgentSettings { limits, ..agent.settings.clone() };
    let mut rows = rows(&settings, agent.tree());
    for (name, secret) in &agent.settings.secrets.0 {
        let key = format!("secrets.{}", name.as_str());
        for row in rows.iter_mut().filter(|row| row.key == key) {
            row.value = state(secret, folder, variable);
        }
    }
    rows
}

fn state(secret: &SecretRef, folder: &Folder, variable: Variable<'_>) -> Json {
    let is_set = secret.resolve(folder, variable).is_ok();
    Json::String(format!("{secret} ({})", if is_set { "set" } else { "unset" }))
}

fn rows<T: Serialize>(settings: &T, tree: &Node) -> Vec<Row> {
    // Settings are plain data: they always become JSON.
    let json = serde_json::to_value(settings).unwrap_or_default();
    let mut rows = Vec::new();
    flatten(String::new(), &json, Some(tree), &Origin::Default, &mut rows);
    rows
}

/// Walks the values and the tree that they were read from, side by side. What has no node of its own has the
/// origin of what it stands in, if that was written as one value, or none.
fn flatten(key: String, json: &Json, node: Option<&Node>, above: &Origin, rows: &mut Vec<Row>) {
    match json {
        Json::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                let inner = node.and_then(|node| child(node, name));
                let is_whole = node.is_some_and(|node| !matches!(node.value, Value::Table(_)));
                let origin = match (inner, node) {
                    (Some(inner), _) => Origin::At(inner.place.clone()),
                    (None, Some(node)) if is_whole => Origin::At(node.place.clone()),
                    (None, None) => above.clone(),
                    (None, Some(_)) => Origin::Default,
                };
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(key, value, inner, &origin, rows);
            }
        }
        _ => rows.push(Row { key, value: json.clone(), origin: above.clone() }),
    }
}

fn child<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let entries = node.entries();
    entries.iter().find(|entry| entry.key == name || entry.key == camel(name)).map(|entry| &entry.node)
}
