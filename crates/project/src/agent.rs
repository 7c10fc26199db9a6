//! One agent: its files, read and merged.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::cron::Schedule;
use crate::discover::{Found, SKILL_FILE};
use crate::folder::{Folder, ReadFault};
use crate::load::{CONFIG_BYTES_MAX, CONFIG_FILE, config_tree};
use crate::name::AgentName;
use crate::node::{Entry, Node, Value, field_names, read, snake};
use crate::problem::{Place, Problem};
use crate::settings::{AgentSettings, ProjectSettings, Run, WebhookRule};
use crate::skill::{self, Skill};

/// Bytes in a `SKILL.md`: a long book of instructions, and still little enough to hand to a model.
pub const SKILL_BYTES_MAX: u64 = 1 << 20;
/// The file that runs an agent which names no command.
pub(crate) const RUN_FILE: &str = "run";

/// What the project gives to agents that say nothing: where it stands there, and what it is called here.
const INHERITED: &[(&[&str], &str)] = &[
    (&["timezone"], "timezone"),
    (&["default_agent_scale"], "scale"),
    (&["local", "timeout"], "timeout"),
    (&["local", "grace"], "grace"),
    (&["resource_lock_timeout"], "resource_lock_timeout"),
    (&["work_queue_size"], "work_queue_size"),
    (&["overflow"], "overflow"),
    (&["on_stop"], "on_stop"),
    (&["max_reruns"], "max_reruns"),
    (&["user"], "user"),
    (&["isolation"], "isolation"),
    (&["edits_project"], "edits_project"),
];

static SETTING_NAMES: LazyLock<&'static [&'static str]> = LazyLock::new(field_names::<AgentSettings>);

/// An agent that can be run.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// Its folder, relative to the project.
    pub folder: PathBuf,
    /// What its `SKILL.md` says about it.
    pub skill: Skill,
    /// The body of its `SKILL.md`.
    pub instructions: Arc<str>,
    /// Its settings, from all files.
    pub settings: AgentSettings,
    /// What runs it.
    pub program: Program,
    tree: Node,
}

/// What runs an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// A program and its arguments. A plain name is looked up in `PATH`; one with a slash starts at the agent's folder.
    Command(Vec<String>),
    /// A preset for a known agent program.
    Preset(String),
    /// An executable file of the project, relative to it.
    File(PathBuf),
}

impl Agent {
    /// When it is due, if it runs by itself.
    pub fn schedule(&self) -> Option<Schedule> {
        let expression = self.settings.schedule.clone()?;
        Some(Schedule::new(expression, self.settings.timezone.clone()))
    }

    /// Whether it may run at all.
    pub fn is_enabled(&self) -> bool {
        self.settings.scale > 0
    }

    /// Where a setting stands; the `SKILL.md` if it is nowhere.
    pub fn place_of(&self, setting: &str) -> Place {
        self.tree
            .get(setting)
            .map_or_else(|| skill_place(&self.folder.to_string_lossy()), |node| node.place.clone())
    }

    /// Its settings as written, merged.
    pub fn tree(&self) -> &Node {
        &self.tree
    }
}

/// Whether nothing changed that a run would notice: where a value stands is not such a thing.
impl PartialEq for Agent {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.folder == other.folder
            && self.skill == other.skill
            && self.instructions == other.instructions
            && self.settings == other.settings
            && self.program == other.program
    }
}

/// The project around an agent: its settings, and the tree that they were read from.
pub(crate) struct Around<'a> {
    pub(crate) settings: &'a ProjectSettings,
    pub(crate) tree: &'a Node,
}

/// Reads an agent. None if anything about it is an error.
pub(crate) fn load(
    folder: &Folder,
    found: &Found,
    project: &Around<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Agent> {
    let file = skill_place(&found.folder);
    let mut mine = Vec::new();
    if let Some(twin) = &found.twin {
        let message = format!("there is another agent of this name in {twin}");
        mine.push(Problem::error(file.clone(), message).hint("Rename or remove one of them."));
    }
    let agent = read_agent(folder, found, project, &file, &mut mine);
    let is_broken = mine.iter().any(Problem::is_error);
    problems.append(&mut mine);
    agent.filter(|_| !is_broken)
}

fn read_agent(
    folder: &Folder,
    found: &Found,
    project: &Around<'_>,
    file: &Place,
    problems: &mut Vec<Problem>,
) -> Option<Agent> {
    let bytes = match folder.read(&found.file(SKILL_FILE), SKILL_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(fault) => {
            problems.push(Problem::error(file.clone(), format!("can't be read: {fault}")));
            return None;
        }
    };
    let parts = skill::parse(&bytes, file, &found.name, &SETTING_NAMES, problems)?;
    let config = config_tree(folder, &found.file(CONFIG_FILE), CONFIG_BYTES_MAX, problems);
    let written = merged(project.tree, &parts.settings, &config);
    let skill_fields = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
    let (settings, tree) = read::<AgentSettings>(&written, &skill_fields, problems);
    // A command that can't be read has been told, and the file is not what was meant.
    let is_unreadable = settings.run.is_none() && written.get("run").is_some();
    let program = if is_unreadable { None } else { program(folder, found, &settings, problems) };
    let agent = Agent {
        name: found.name.clone(),
        folder: PathBuf::from(&found.folder),
        skill: parts.skill,
        instructions: parts.instructions.into(),
        settings,
        // A broken agent is never handed out, so what stands here for it does not matter.
        program: program.unwrap_or_else(|| Program::File(PathBuf::from(found.file(RUN_FILE)))),
        tree,
    };
    check(&agent, project, problems);
    Some(agent)
}

fn skill_place(folder: &str) -> Place {
    Place::file(format!("{folder}/{SKILL_FILE}"))
}

/// Later ones win: what the project gives, the frontmatter, the agent's own `config.toml`. A key wins as a whole.
fn merged(project: &Node, skill: &Node, config: &Node) -> Node {
    let mut entries: Vec<Entry> = Vec::new();
    for (steps, name) in INHERITED {
        let found = steps.iter().try_fold(project, |node, step| node.get(step));
        if let Some(node) = found {
            entries.push(Entry { key: (*name).to_owned(), place: node.place.clone(), node: node.clone() });
        }
    }
    for layer in [skill, config] {
        // Within one file both spellings of a key are a mistake, which must stay visible.
        let names: HashSet<String> = layer.entries().iter().map(|entry| snake(&entry.key)).collect();
        entries.retain(|entry| !names.contains(&snake(&entry.key)));
        entries.extend(layer.entries().iter().cloned());
    }
    Node::new(Value::Table(entries), skill.place.clone())
}

fn program(
    folder: &Folder,
    found: &Found,
    settings: &AgentSettings,
    problems: &mut Vec<Problem>,
) -> Option<Program> {
    match &settings.run {
        Some(Run::Command(words)) => return Some(Program::Command(words.clone())),
        Some(Run::Preset(name)) => return Some(Program::Preset(name.clone())),
        None => {}
    }
    let path = found.file(RUN_FILE);
    let problem = match folder.is_executable(&path) {
        Ok(true) => return Some(Program::File(PathBuf::from(path))),
        Ok(false) => {
            Problem::error(Place::file(&path), "is not executable").hint(format!("Run: chmod +x {path}"))
        }
        Err(ReadFault::Missing) => {
            let message = "nothing says what runs it: it has no \"run\", and there is no file called run";
            Problem::error(skill_place(&found.folder), message)
                .hint("Set run to a preset (run: claude) or to a command, or put an executable file called run beside it.")
        }
        Err(fault) => Problem::error(Place::file(&path), format!("can't be run: {fault}")),
    };
    problems.push(problem);
    None
}

/// What each setting allows, but not together with the others or with the project.
fn check(agent: &Agent, project: &Around<'_>, problems: &mut Vec<Problem>) {
    let settings = &agent.settings;
    for WebhookRule(rule) in &settings.webhooks {
        let known = project.settings.webhooks.keys().map(String::as_str);
        if !project.settings.webhooks.contains_key(&rule.source) {
            let message = format!("no webhook source is called {:?}", rule.source);
            let mut problem = Problem::error(agent.place_of("webhooks"), message)
                .hint(format!("Add [webhooks.{}] to the project's config.toml.", rule.source));
            problem.nearest = crate::nearest::nearest(&rule.source, known).map(str::to_owned);
            problems.push(problem);
        }
    }
    if settings.may_call.as_ref().is_some_and(|names| names.contains(&agent.name)) {
        let problem = Problem::error(agent.place_of("may_call"), "an agent can't call itself");
        problems
            .push(problem.hint("Take it out of the list; a run that wants another one asks for a rerun."));
    }
    if settings.schedule.is_none() {
        for name in ["jitter", "overlap", "catchup"] {
            if agent.tree.get(name).is_some() {
                let message = format!("{name} does nothing: there is no schedule");
                problems.push(Problem::warning(agent.place_of(name), message));
            }
        }
    }
    if settings.locks.is_empty() {
        for name in ["on_busy", "lock_wait"] {
            if agent.tree.get(name).is_some() {
                let message = format!("{name} does nothing: there are no locks");
                problems.push(Problem::warning(agent.place_of(name), message));
            }
        }
    }
    if settings.paths.is_some() && settings.container.is_some() {
        let message = "paths does not hold in a container, which sees the project and its image";
        problems
            .push(Problem::error(agent.place_of("paths"), message).hint("Take `paths` or `container` out."));
    }
    if settings.limits.cpus.is_some() && settings.container.is_none() {
        let problem =
            Problem::warning(agent.place_of("limits"), "limits.cpus does nothing: there is no container");
        problems.push(problem.hint("Add `container`, or limit CPU time with limits.cpu."));
    }
    if settings.retry.attempts == 0 {
        let problem =
            Problem::error(agent.place_of("retry"), "attempts counts the first try too, so it can't be 0");
        problems.push(problem.hint("Write 1 for no second try."));
    }
    if let Some(cap) = project.settings.scale.filter(|cap| settings.scale > *cap) {
        let message = format!("scale {} is more than the project's cap of {cap}", settings.scale);
        problems.push(
            Problem::warning(agent.place_of("scale"), message).hint("The cap holds for all agents together."),
        );
    }
}
