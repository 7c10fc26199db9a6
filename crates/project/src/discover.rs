//! Which agents a project has (C1): `agents/<name>/SKILL.md` and `<name>/SKILL.md`, and nothing is registered.
//!
//! Only the given folder is looked at, not its parents: what runs is what is in front of you.

use std::collections::BTreeMap;

use crate::folder::{Folder, Kind, ReadFault};
use crate::name::AgentName;
use crate::problem::{Place, Problem};

/// Agents in a project. Each costs a few kilobytes and a watch; far more than anybody has needed.
pub const AGENTS_MAX: usize = 10_000;
/// The file that makes a folder an agent.
pub const SKILL_FILE: &str = "SKILL.md";
/// The folder that holds nothing but agents.
pub const AGENTS_FOLDER: &str = "agents";

/// A folder that is an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The folder's name.
    pub name: AgentName,
    /// The folder, relative to the project.
    pub folder: String,
    /// Another folder with an agent of the same name.
    pub twin: Option<String>,
}

impl Found {
    /// A file in its folder, relative to the project.
    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

/// Looks for agents. What is in the way is noted.
pub fn discover(folder: &Folder, problems: &mut Vec<Problem>) -> Vec<Found> {
    let mut found: BTreeMap<AgentName, Found> = BTreeMap::new();
    for inner in [AGENTS_FOLDER, "."] {
        for (name, place) in candidates(folder, inner, problems) {
            let Some(name) = agent_name(folder, inner, &name, &place, problems) else { continue };
            if let Some(first) = found.get_mut(&name) {
                first.twin = Some(place);
                continue;
            }
            if found.len() == AGENTS_MAX {
                let message =
                    format!("more than {AGENTS_MAX} agents: this one and all after it are left out");
                problems.push(Problem::error(Place::file(place), message));
                return found.into_values().collect();
            }
            found.insert(name.clone(), Found { name, folder: place, twin: None });
        }
    }
    if found.is_empty() && problems.iter().all(|problem| !problem.is_error()) {
        problems.push(none_found(folder));
    }
    found.into_values().collect()
}

fn none_found(folder: &Folder) -> Problem {
    let path = folder.path().display();
    let message = format!("no agents: looked for {path}/agents/<name>/SKILL.md and {path}/<name>/SKILL.md");
    Problem::error(Place::file("."), message)
        .hint("Run it in the folder of a project, or name the folder; `bell init` makes one.")
}

/// Folders that may be agents: their names, and where they are.
fn candidates(folder: &Folder, inner: &str, problems: &mut Vec<Problem>) -> Vec<(String, String)> {
    let names = match folder.list(inner) {
        Ok(names) => names,
        Err(ReadFault::Missing) => return Vec::new(),
        Err(fault) => {
            problems.push(Problem::error(Place::file(inner), format!("can't be listed: {fault}")));
            return Vec::new();
        }
    };
    let is_candidate = |(name, kind): &(String, Kind)| {
        *kind == Kind::MaybeFolder && !name.starts_with('.') && (inner != "." || name != AGENTS_FOLDER)
    };
    let place = |name: String| match inner {
        "." => (name.clone(), name),
        _ => (name.clone(), format!("{inner}/{name}")),
    };
    names.into_iter().filter(is_candidate).map(|(name, _)| place(name)).collect()
}

/// The name of an agent, if the folder is one. A folder beside `config.toml` may be anything; one in `agents/` is
/// meant to be an agent, so there is a word to say if it is not.
fn agent_name(
    folder: &Folder,
    inner: &str,
    name: &str,
    place: &str,
    problems: &mut Vec<Problem>,
) -> Option<AgentName> {
    let is_meant = inner == AGENTS_FOLDER;
    let skill = Place::file(format!("{place}/{SKILL_FILE}"));
    match folder.exists(&format!("{place}/{SKILL_FILE}")) {
        Ok(()) => {}
        Err(ReadFault::Missing) => {
            if is_meant && folder.exists(place).is_ok() {
                let problem = Problem::warning(Place::file(place), "no agent: it has no SKILL.md");
                problems.push(problem.hint("Write one, or move the folder out of agents/."));
            }
            return None;
        }
        // Such as a link to data elsewhere.
        Err(ReadFault::Outside) if !is_meant && folder.exists(place).is_err() => return None,
        Err(fault) => {
            let problem = Problem::error(skill, format!("can't be read: {fault}"));
            problems.push(problem.hint("Copy the file into the project instead of linking to it."));
            return None;
        }
    }
    match AgentName::parse(name) {
        Ok(name) => Some(name),
        Err(error) => {
            let shown: String = name.chars().take(64).collect();
            let problem = Problem::error(skill, format!("the folder's name {shown:?} {error}"));
            problems.push(problem.hint("Rename it: 1 to 64 of a-z, 0-9 and single hyphens."));
            None
        }
    }
}
