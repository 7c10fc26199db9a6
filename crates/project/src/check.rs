//! What is wrong around a project: programs, users, presets, secrets.
//!
//! Loading finds what is wrong in the files. This looks at the machine, and is told what it can't see itself.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::agent::{Agent, Program, RUN_FILE};
use crate::discover::SKILL_FILE;
use crate::folder::Folder;
use crate::load::{CONFIG_FILE, Loaded};
use crate::nearest::nearest;
use crate::node::Node;
use crate::problem::{Place, Problem};
use crate::settings::IsolationLevel;
use crate::trust::{self, Reason};

/// The machine, as far as a project depends on it.
pub struct Surroundings<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Whether there is a user of this name.
    pub has_user: &'a dyn Fn(&str) -> bool,
    /// The presets that are known.
    pub presets: &'a [String],
    /// What it has to isolate runs with.
    pub isolation: IsolationSupport<'a>,
}

/// What a machine has to isolate runs with.
#[derive(Clone, Copy, Debug)]
pub enum IsolationSupport<'a> {
    /// All that is needed.
    Full,
    /// A part of it; what is missing.
    Partial(&'a str),
    /// Nothing; what to do.
    Missing(&'a str),
}

/// Everything that is wrong: in the files, and around them. In the order of files and lines.
pub fn check(folder: &Folder, loaded: &Loaded, around: &Surroundings<'_>) -> Vec<Problem> {
    let mut problems = loaded.problems.clone();
    for (source, settings) in &loaded.settings.webhooks {
        let place = webhook_place(loaded.tree(), source);
        for secret in settings.secret.iter().flat_map(|secrets| &secrets.0) {
            check_secret(secret.resolve(folder, around.variable), &place, &mut problems);
        }
    }
    for agent in loaded.agents.values() {
        check_agent(folder, loaded, agent, around, &mut problems);
    }
    problems.sort_by(|a, b| (&a.place, a.severity).cmp(&(&b.place, b.severity)));
    problems
}

fn webhook_place(tree: &Node, source: &str) -> Place {
    let found = tree.get("webhooks").and_then(|node| node.get(source)?.get("secret"));
    found.map_or_else(|| tree.place.clone(), |node| node.place.clone())
}

/// Only a warning: a secret may be there on the machine where the agents run.
fn check_secret(
    resolved: Result<crate::secret::Secret, crate::secret::SecretError>,
    place: &Place,
    problems: &mut Vec<Problem>,
) {
    if let Err(error) = resolved {
        problems.push(Problem::warning(place.clone(), format!("could not {error}")).hint(error.hint()));
    }
}

fn check_agent(
    folder: &Folder,
    loaded: &Loaded,
    agent: &Agent,
    around: &Surroundings<'_>,
    problems: &mut Vec<Problem>,
) {
    check_program(folder, agent, around, problems);
    check_isolation(agent, around, problems);
    check_folder(folder, agent, problems);
    for secret in agent.settings.secrets.0.values() {
        check_secret(secret.resolve(folder, around.variable), &agent.place_of("secrets"), problems);
    }
    if let Some(user) = agent.settings.user.as_deref().filter(|user| !(around.has_user)(user)) {
        let shown: String = user.chars().take(64).collect();
        let problem = Problem::error(agent.place_of("user"), format!("there is no user {shown:?}"));
        problems.push(problem.hint("Name a user of /etc/passwd, or give a number."));
    }
    for name in agent.settings.may_call.iter().flatten().filter(|name| !loaded.agents.contains_key(*name)) {
        let mut problem = Problem::warning(agent.place_of("may_call"), format!("there is no agent {name}"));
        problem.nearest =
            nearest(name.as_str(), loaded.agents.keys().map(|name| name.as_str())).map(str::to_owned);
        problems.push(problem);
    }
    if matches!(agent.program, Program::Preset(_)) && agent.instructions.trim().is_empty() {
        let problem =
            Problem::warning(agent.place_of("run"), "a preset without instructions has nothing to do");
        problems.push(problem.hint("Write what the agent is to do after the frontmatter."));
    }
}

/// Who can write an agent's folder, or the files in it that say what it is, decides what it does.
fn check_folder(folder: &Folder, agent: &Agent, problems: &mut Vec<Problem>) {
    let Ok(project) = fs::metadata(folder.path()) else { return };
    let owner = trust::User { uid: project.uid(), sudo_uid: None };
    for name in ["", SKILL_FILE, CONFIG_FILE, RUN_FILE] {
        let path = agent.folder.join(name);
        let Some(reason) = trust::distrusted(&folder.path().join(&path), owner) else { continue };
        let place = Place::file(path.to_string_lossy().trim_end_matches('/'));
        let problem = Problem::warning(place, format!("{reason}: others can change this agent"));
        let path = folder.path().join(&path);
        let remedy = match reason {
            Reason::Owner { .. } => format!("chown {} {}", owner.uid, path.display()),
            _ => format!("chmod go-w {}", path.display()),
        };
        problems.push(problem.hint(format!("Run: {remedy}")));
    }
}

fn check_isolation(agent: &Agent, around: &Surroundings<'_>, problems: &mut Vec<Problem>) {
    let settings = &agent.settings;
    if settings.edits_project {
        let message =
            "its runs may change what defines the fleet: settings, instructions and scripts of all agents";
        let problem = Problem::warning(agent.place_of("edits_project"), message);
        problems.push(problem.hint("Leave `edits_project` out, unless this agent is there for that."));
    }
    let place = agent.place_of("isolation");
    if settings.isolation == IsolationLevel::None {
        let message = "its runs are not isolated: they can read keys, secrets and the runs of others";
        problems
            .push(Problem::warning(place, message).hint("Leave `isolation` out, or set it to \"strict\"."));
        return;
    }
    // In a container its engine isolates the run.
    match around.isolation {
        _ if settings.container.is_some() => {}
        IsolationSupport::Full => {}
        IsolationSupport::Partial(missing) => {
            let message = format!("this machine can isolate its runs only in part: {missing}");
            problems
                .push(Problem::warning(place, message).hint("Let the daemon's user make user namespaces."));
        }
        IsolationSupport::Missing(hint) => {
            let message = "this machine can't isolate its runs, so they are not started";
            problems.push(Problem::error(place, message).hint(hint));
        }
    }
}

fn check_program(folder: &Folder, agent: &Agent, around: &Surroundings<'_>, problems: &mut Vec<Problem>) {
    match &agent.program {
        Program::File(_) => {}
        Program::Preset(name) if around.presets.contains(name) => {}
        Program::Preset(name) => {
            let mut problem = Problem::error(agent.place_of("run"), format!("there is no preset {name:?}"))
                .hint(format!("Use one of {}, or a command as a list.", around.presets.join(", ")));
            problem.nearest = nearest(name, around.presets.iter().map(String::as_str)).map(str::to_owned);
            problems.push(problem);
        }
        // It is looked for in the container.
        Program::Command(_) if agent.settings.container.is_some() => {}
        Program::Command(words) => {
            let program = words.first().map_or("", String::as_str);
            if let Err(problem) = find_program(folder, agent, program, around) {
                problems.push(*problem);
            }
        }
    }
}

fn find_program(
    folder: &Folder,
    agent: &Agent,
    program: &str,
    around: &Surroundings<'_>,
) -> Result<(), Box<Problem>> {
    let shown: String = program.chars().take(100).collect();
    let place = agent.place_of("run");
    if program.contains('/') {
        let path = folder.path().join(&agent.folder).join(program);
        return match is_executable(&path) {
            Some(true) => Ok(()),
            Some(false) => {
                let problem = Problem::error(place, format!("the program {shown:?} is not executable"));
                Err(Box::new(problem.hint(format!("Run: chmod +x {}", path.display()))))
            }
            None => {
                let problem = Problem::error(place, format!("there is no program {shown:?}"));
                Err(Box::new(problem.hint("A name with a slash starts at the agent's folder.")))
            }
        };
    }
    let path = (around.variable)("PATH").unwrap_or_default();
    let found =
        path.split(':').any(|folder| is_executable(&PathBuf::from(folder).join(program)) == Some(true));
    if found {
        return Ok(());
    }
    let problem = Problem::error(place, format!("there is no program {shown:?} in PATH"));
    Err(Box::new(problem.hint("Install it, or write its path.")))
}

/// None if there is no such file.
fn is_executable(path: &Path) -> Option<bool> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(metadata.permissions().mode() & 0o111 != 0)
}

/// Whether `/etc/passwd`, given as text, has a user of this name or number. Numbers need no entry there.
pub fn passwd_has(passwd: &str, user: &str) -> bool {
    let is_number = user.parse::<u32>().is_ok();
    is_number || passwd.lines().any(|line| line.split(':').next() == Some(user) && !user.is_empty())
}
