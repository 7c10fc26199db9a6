//! `bell check`: everything that is wrong with a project, before anything runs.

use std::collections::BTreeMap;
use std::path::Path;

use bell_api::exit;
use bell_control::known;
use bell_daemon::run_user::{self, Home};
use bell_project::agent::Agent;
use bell_project::check::{IsolationSupport, Surroundings, check as look, passwd_has};
use bell_project::cron::Timestamp;
use bell_project::discover::AGENTS_FOLDER;
use bell_project::folder::Folder;
use bell_project::load::{CONFIG_BYTES_MAX, Loaded};
use bell_project::locate::STATE_FOLDER;
use bell_project::name::AgentName;
use bell_project::newcomers::PRESETS_FOLDER;
use bell_project::problem::{Place, Problem};
use bell_runner::error::Error as RunnerError;
use bell_runner::presets::Presets;
use bell_runner::user::User;
use bell_runner::{isolation, sudo};
use bell_store::clock::wall;
use bell_why::words::count;
use rustix::process::geteuid;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::CheckArgs;
use crate::project::{Start, open_folder};
use crate::run::start::git;
use crate::say::Say;
use crate::span::ms;

/// How many of the next fires are told.
const NEXT: usize = 5;

#[derive(Serialize)]
struct Answer<'a> {
    valid: bool,
    errors: usize,
    warnings: usize,
    problems: &'a [Problem],
    agents: Vec<Checked<'a>>,
}

#[derive(Serialize)]
struct Checked<'a> {
    name: &'a AgentName,
    folder: &'a Path,
    enabled: bool,
    /// Who its runs run as, and with which home.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<&'a str>,
    /// The next fires, soonest first.
    next: Vec<String>,
}

/// Looks at a project. Answers the exit code.
pub(crate) fn check(say: &Say, start: &Start, args: &CheckArgs) -> Result<u8, Refusal> {
    let folder = open_folder(&start.or_at(args.dir.as_deref()).project_or_folder()?)?;
    let loaded = known::load(&folder);
    let mut problems = Vec::new();
    let presets = presets(&folder, &mut problems)?;
    problems.extend(problems_of(&folder, &loaded, &presets));
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    let answer = Answer {
        valid: errors == 0,
        errors,
        warnings: problems.len() - errors,
        problems: &problems,
        agents: loaded.agents.values().map(|agent| checked(agent, &folder)).collect(),
    };
    let _ = say.answer(&answer, || lines(&answer));
    Ok(if errors == 0 { exit::OK } else { exit::BAD_REQUEST })
}

/// Everything that is wrong with a project, and around it on this machine.
pub(crate) fn problems_of(folder: &Folder, loaded: &Loaded, presets: &Presets) -> Vec<Problem> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let names: Vec<String> = presets.names().map(str::to_owned).collect();
    let isolation = match isolation::probe() {
        Ok(None) | Err(_) => IsolationSupport::Missing(isolation::HINT),
        Ok(Some(means)) => means.lacks().map_or(IsolationSupport::Full, IsolationSupport::Partial),
    };
    let has_user = |user: &str| passwd_has(&passwd, user);
    let around = Surroundings { variable: &variable, has_user: &has_user, presets: &names, isolation };
    let mut problems = look(folder, loaded, &around);
    problems.extend(tracked(folder));
    problems.extend(nested(folder, loaded));
    problems.extend(loaded.agents.values().filter_map(|agent| without_user(agent, folder)));
    problems.extend(loaded.agents.values().filter_map(|agent| without_home(agent, folder)));
    problems.extend(without_rights(folder, loaded));
    problems
}

/// The problem that a daemon of this user finds no user for the runs of an agent. A named user that does not exist is reported elsewhere.
fn without_user(agent: &Agent, folder: &Folder) -> Option<Problem> {
    let reason = run_user::user(agent, folder.path()).err().filter(|_| agent.settings.user.is_none())?;
    Some(Problem::error(agent.place_of("user"), format!("could not {reason}")).hint(run_user::REMEDIES))
}

/// The problems that this user, who is not root, can't run agents as the users that they name.
fn without_rights(folder: &Folder, loaded: &Loaded) -> Vec<Problem> {
    // sudo logs each refusal: it is asked once for each user.
    let mut checked: BTreeMap<u32, Result<(), RunnerError>> = BTreeMap::new();
    let mut problems = Vec::new();
    for agent in loaded.agents.values().filter(|agent| agent.is_enabled()) {
        let Ok(Some(user)) = run_user::user(agent, folder.path()) else { continue };
        if !sudo::is_needed_for(&user) {
            continue;
        }
        let place = agent.place_of("user");
        let problem = if agent.settings.container.is_some() {
            let message = format!("only root can give a container's files to {}", user.name);
            Some(Problem::error(place, message).hint("Start bell up as root, or take `user` out."))
        } else {
            let refused = checked.entry(user.uid).or_insert_with(|| sudo::check(&user)).as_ref().err();
            refused.map(|error| not_allowed(place, error))
        };
        // A user that the project's settings name is one problem, whatever agents it has.
        problems.extend(problem.filter(|problem| !problems.contains(problem)));
    }
    problems
}

/// The problem that sudo does not start runs as a user. What passes by itself needs no advice.
fn not_allowed(place: Place, error: &RunnerError) -> Problem {
    let problem = Problem::error(place, format!("could not {error}"));
    if error.advice().is_empty() { problem } else { problem.hint(error.advice()) }
}

/// The problem that the home which an agent's settings name is none for its user.
fn without_home(agent: &Agent, folder: &Folder) -> Option<Problem> {
    let user = run_user::user(agent, folder.path()).ok()?;
    let reason = run_user::home(agent, folder.path(), user.as_ref()).err()?;
    Some(Problem::error(agent.place_of("home"), format!("could not {reason}")).hint(run_user::HOME_REMEDY))
}

/// The state folder has keys and secrets in it. Without git, or outside of a repository, nothing tracks it.
fn tracked(folder: &Folder) -> Option<Problem> {
    let listed = git(folder.path(), &["ls-files", "--cached", "--", STATE_FOLDER]).output().ok()?;
    if !listed.status.success() || listed.stdout.is_empty() {
        return None;
    }
    let message = "git tracks files in it: keys and secrets may be published";
    let hint =
        format!("git rm -r --cached {STATE_FOLDER}, and change what was in it: it stays in the history.");
    Some(Problem::warning(Place::file(STATE_FOLDER), message).hint(hint))
}

/// State folders in the folders of agents, which earlier versions made: commands that start there refuse to choose between two.
fn nested<'a>(folder: &'a Folder, loaded: &'a Loaded) -> impl Iterator<Item = Problem> + 'a {
    let folders = loaded.agents.values().map(|agent| agent.folder.clone());
    folders.chain([AGENTS_FOLDER.into()]).map(|inner| inner.join(STATE_FOLDER)).filter_map(|inner| {
        let is_there = folder.path().join(&inner).exists();
        let message = "it is a second state folder of the same agents: commands that start there are refused";
        is_there.then(|| {
            Problem::warning(Place::file(inner.display().to_string()), message)
                .hint("If no daemon runs there, remove it.")
        })
    })
}

/// A variable of this process. What is not text is no value.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All presets: those that come with the program, and the project's own.
pub(crate) fn presets(folder: &Folder, problems: &mut Vec<Problem>) -> Result<Presets, Refusal> {
    let mut presets = Presets::built_in()
        .map_err(|error| Refusal::unavailable(format!("could not {error}"), "Install bell again."))?;
    for (file, _) in folder.list(PRESETS_FOLDER).unwrap_or_default() {
        let Some(name) = file.strip_suffix(".toml") else { continue };
        let path = format!("{PRESETS_FOLDER}/{file}");
        let added = match folder.read(&path, CONFIG_BYTES_MAX) {
            Ok(bytes) => {
                presets.add(name, &String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())
            }
            Err(fault) => Err(format!("read it: {fault}")),
        };
        if let Err(error) = added {
            let problem = Problem::error(Place::file(path), format!("could not {error}"));
            problems.push(problem.hint("Compare it with a preset that comes with Bellwether."));
        }
    }
    Ok(presets)
}

/// The user and the home of an agent's runs on this machine; `None` if one of them can't be had.
fn runs_as(agent: &Agent, folder: &Folder) -> Option<String> {
    let user = run_user::user(agent, folder.path()).ok()?;
    let home = match run_user::home(agent, folder.path(), user.as_ref()).ok()? {
        Home::Shared(home) => format!("the home {}", home.display()),
        Home::Own => "a home of its own".to_owned(),
    };
    let this =
        User::find(&geteuid().as_raw().to_string()).map_or_else(|_| "this user".to_owned(), |user| user.name);
    let by_sudo = |user: User| {
        let by = if sudo::is_needed_for(&user) { " by sudo" } else { "" };
        user.name + by
    };
    let user = user.map_or_else(|| this.clone(), by_sudo);
    Some(format!("logged in as {this}, runs as {user} with {home}"))
}

fn checked<'a>(agent: &'a Agent, folder: &Folder) -> Checked<'a> {
    let schedule = agent.schedule().filter(|_| agent.is_enabled());
    let now = i64::try_from(ms(wall())).ok().and_then(|now| Timestamp::from_millisecond(now).ok());
    let next = schedule.zip(now).map(|(schedule, now)| schedule.next(now, NEXT)).unwrap_or_default();
    Checked {
        name: &agent.name,
        folder: &agent.folder,
        enabled: agent.is_enabled(),
        runs_as: runs_as(agent, folder),
        schedule: agent.settings.schedule.as_ref().map(|schedule| schedule.as_str()),
        timezone: agent.settings.schedule.as_ref().map(|_| agent.settings.timezone.name()),
        next: next.iter().map(ToString::to_string).collect(),
    }
}

fn lines(answer: &Answer<'_>) -> String {
    let mut lines = Vec::new();
    for problem in answer.problems {
        lines.push(problem.to_string());
        lines.extend(problem.hint.as_ref().map(|hint| format!("  hint: {hint}")));
    }
    lines.extend(answer.agents.iter().map(agent_line));
    lines.push(format!(
        "{}, {}, {}",
        count(answer.agents.len(), "agent"),
        count(answer.errors, "error"),
        count(answer.warnings, "warning")
    ));
    lines.join("\n")
}

fn agent_line(agent: &Checked<'_>) -> String {
    let when = match (agent.enabled, agent.schedule, agent.next.first()) {
        (false, _, _) => "disabled: its scale is 0".to_owned(),
        (true, Some(schedule), Some(next)) => {
            format!("{schedule} ({}), next at {next}", agent.timezone.unwrap_or_default())
        }
        _ => "no schedule".to_owned(),
    };
    let runs_as = agent.runs_as.as_ref().map(|runs_as| format!("; {runs_as}")).unwrap_or_default();
    format!("{}: {when}{runs_as}", agent.name)
}

#[cfg(test)]
mod tests {
    use bell_runner::error::Kind;

    use super::*;

    #[test]
    fn what_passes_by_itself_has_no_empty_hint() {
        let error = RunnerError::new(Kind::Unavailable, "run as ann by sudo: Cannot allocate memory");
        let place = || Place::file("config.toml");
        assert_eq!(not_allowed(place(), &error).hint, None);
        let lasting = RunnerError::new(Kind::Denied, "run as ann by sudo").hint("Allow it.");
        assert_eq!(not_allowed(place(), &lasting).hint.as_deref(), Some("Allow it."));
    }
}
