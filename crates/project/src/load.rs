//! Everything in a project, loaded at once; and loaded again, with what is broken kept as it last was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agent::{Agent, Around, load as load_agent};
use crate::discover::{Found, discover};
use crate::folder::{Folder, ReadFault};
use crate::name::AgentName;
use crate::newcomers::{Definitions, Newcomers};
use crate::node::{Node, parse_toml, read};
use crate::problem::{Place, Problem, line_and_column};
use crate::settings::{ProjectSettings, check_webhook};
use crate::stores::absolute;

/// The settings of a project, and of an agent, in its folder.
pub const CONFIG_FILE: &str = "config.toml";
/// Bytes in a `config.toml`: a thousand webhook sources fit.
pub const CONFIG_BYTES_MAX: u64 = 256 << 10;

/// A project as it is, or as it last was where it is broken.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The project's settings.
    pub settings: ProjectSettings,
    /// The agents that can be run.
    pub agents: BTreeMap<AgentName, Arc<Agent>>,
    /// What is wrong, in the order of files and lines.
    pub problems: Vec<Problem>,
    /// Agents that are broken now and stand here as they last were.
    pub kept: BTreeSet<AgentName>,
    /// Whether `config.toml` is broken or held back, and the settings are as they last were.
    pub settings_kept: bool,
    /// What of it counts, of what runs could have made.
    pub definitions: Definitions,
    tree: Node,
}

/// What is different from before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    /// Agents that are new.
    pub added: Vec<AgentName>,
    /// Agents that changed.
    pub changed: Vec<AgentName>,
    /// Agents that are gone.
    pub removed: Vec<AgentName>,
    /// Whether the project's own settings changed.
    pub settings: bool,
    /// Whether what is wrong changed.
    pub problems: bool,
}

impl Diff {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Loaded {
    /// Loads a project. Whatever is wrong is in its problems; agents with errors are left out.
    pub fn load(folder: &Folder) -> Self {
        Self::load_over(folder, None, &Definitions::default(), Newcomers::Taken)
    }

    /// Loads a project of which this much was known when its daemon ended. Its settings count whenever they were made: to
    /// start with others than those that are there would be worse.
    pub fn load_after(folder: &Folder, mut before: Definitions, newcomers: Newcomers) -> Self {
        before.held_back.remove(CONFIG_FILE);
        before.taken.insert(CONFIG_FILE.to_owned());
        Self::load_over(folder, None, &before, newcomers)
    }

    /// Loads it again. An agent or a `config.toml` that is broken now stays as it was.
    #[must_use]
    pub fn reload(&self, folder: &Folder, newcomers: Newcomers) -> Self {
        Self::load_over(folder, Some(self), &self.definitions, newcomers)
    }

    fn load_over(folder: &Folder, last: Option<&Self>, before: &Definitions, newcomers: Newcomers) -> Self {
        let mut problems = Vec::new();
        let (mut settings, mut tree) = project_settings(folder, &mut problems);
        let is_broken = problems.iter().any(Problem::is_error);
        let found = discover(folder, &mut problems);
        let definitions = before.now(folder, &found, newcomers);
        problems.extend(definitions.problems());
        let mut settings_kept = false;
        if let Some(last) = last.filter(|_| is_broken || definitions.held_back.contains(CONFIG_FILE)) {
            (settings, tree) = (last.settings.clone(), last.tree.clone());
            settings_kept = true;
        }
        let mut loaded = Self { settings, problems, settings_kept, definitions, tree, ..Self::empty() };
        for found in &found {
            if loaded.definitions.takes(found) {
                loaded.add(folder, found, last);
            }
        }
        loaded.problems.sort_by(|a, b| (&a.place, a.severity).cmp(&(&b.place, b.severity)));
        loaded
    }

    fn add(&mut self, folder: &Folder, found: &Found, last: Option<&Self>) {
        let around = Around { settings: &self.settings, tree: &self.tree };
        let now = load_agent(folder, found, &around, &mut self.problems);
        let before = last.and_then(|last| last.agents.get(&found.name));
        match (now, before) {
            // The same agent stays the same allocation, so whoever holds it sees that nothing changed.
            (Some(agent), Some(before)) if agent == **before => {
                self.agents.insert(found.name.clone(), Arc::clone(before));
            }
            (Some(agent), _) => drop(self.agents.insert(found.name.clone(), Arc::new(agent))),
            (None, Some(before)) => {
                self.agents.insert(found.name.clone(), Arc::clone(before));
                self.kept.insert(found.name.clone());
            }
            (None, None) => {}
        }
    }

    /// A project without settings and agents: what a command has that is given a store, and is outside of any project.
    pub fn empty() -> Self {
        Self {
            settings: ProjectSettings::default(),
            agents: BTreeMap::new(),
            problems: Vec::new(),
            kept: BTreeSet::new(),
            settings_kept: false,
            definitions: Definitions::default(),
            tree: Node::empty(Place::file(CONFIG_FILE)),
        }
    }

    /// What is different from `before`.
    pub fn since(&self, before: &Self) -> Diff {
        let names = |of: &Self, keep: &dyn Fn(&AgentName) -> bool| -> Vec<AgentName> {
            of.agents.keys().filter(|name| keep(name)).cloned().collect()
        };
        Diff {
            added: names(self, &|name| !before.agents.contains_key(name)),
            removed: names(before, &|name| !self.agents.contains_key(name)),
            changed: names(self, &|name| {
                before.agents.get(name).is_some_and(|old| Some(old) != self.agents.get(name))
            }),
            settings: self.settings != before.settings,
            problems: self.problems != before.problems,
        }
    }

    /// Whether anything can't be used as it is.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// What makes `config.toml` unusable. Settings read from it in spite of that may lack a cap or name another store.
    pub fn settings_errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_error() && *problem.place.file == *CONFIG_FILE)
    }

    /// The project's settings as written.
    pub fn tree(&self) -> &Node {
        &self.tree
    }
}

/// The settings of a project alone, for what needs no agent.
///
/// # Errors
/// With what is wrong in its `config.toml`: settings read from it in spite of that may name another store.
pub fn load_settings(folder: &Folder) -> Result<ProjectSettings, Vec<Problem>> {
    let mut problems = Vec::new();
    let (settings, _) = project_settings(folder, &mut problems);
    if problems.iter().any(Problem::is_error) { Err(problems) } else { Ok(settings) }
}

fn project_settings(folder: &Folder, problems: &mut Vec<Problem>) -> (ProjectSettings, Node) {
    let written = config_tree(folder, CONFIG_FILE, CONFIG_BYTES_MAX, problems);
    let (mut settings, tree) = read::<ProjectSettings>(&written, &[], problems);
    // Here and nowhere else: every process and every folder then means the same store.
    for url in [&mut settings.store, &mut settings.locks].into_iter().flatten() {
        *url = url.resolved(|text| absolute(text, folder.path()));
    }
    for name in settings.webhooks.keys().filter(|name| AgentName::parse(name).is_err()) {
        let place = tree.get("webhooks").map_or_else(|| tree.place.clone(), |node| node.place.clone());
        let problem = Problem::error(place, format!("the webhook source {name:?} can't be a part of a path"));
        problems.push(problem.hint("Use 1 to 64 of a-z, 0-9 and single hyphens."));
    }
    if let Some(sources) = written.get("webhooks") {
        settings.webhooks.iter().for_each(|(name, source)| check_webhook(name, source, sources, problems));
    }
    (settings, tree)
}

/// A `config.toml`; nothing if there is none.
pub(crate) fn config_tree(folder: &Folder, path: &str, max: u64, problems: &mut Vec<Problem>) -> Node {
    let place = Place::file(path);
    let bytes = match folder.read(path, max) {
        Ok(bytes) => bytes,
        Err(ReadFault::Missing) => return Node::empty(place),
        Err(fault) => {
            problems.push(Problem::error(place.clone(), format!("can't be read: {fault}")));
            return Node::empty(place);
        }
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse_toml(text.strip_prefix('\u{FEFF}').unwrap_or(text), &place, problems),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let (line, column) = line_and_column(valid, valid.len());
            let problem = Problem::error(place.at(line, column), "is not UTF-8");
            problems.push(problem.hint("Save the file as UTF-8 text."));
            Node::empty(place)
        }
    }
}
