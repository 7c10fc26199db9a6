//! From a claimed job to a process that can be started: what to run, with which environment, files and limits.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bell_coord::work::running::Claim;
use bell_project::agent::{Agent, Program};
use bell_project::capacity::{self, Capacity};
use bell_project::folder::ReadFault;
use bell_project::load::CONFIG_BYTES_MAX;
use bell_project::newcomers::PRESETS_FOLDER;
use bell_project::secret::SecretError;
use bell_project::settings::{self, IsolationLevel, Keep};
use bell_project::template::render;
use bell_runner::container::{Container, Mount, MountAccess};
use bell_runner::env::Environment;
use bell_runner::error::Kind;
use bell_runner::handle::SupervisorHandle;
use bell_runner::isolation::{self, Isolation, Means, Views};
use bell_runner::launch::{AfterRun, AgentFile, Landlock, Launch, Limits, Stdin, Worktree};
use bell_runner::presets::{Given, McpServer, Presets};
use bell_runner::spawn::spawn;
use bell_runner::user::User;
use bell_runner::{acl, sudo};
use serde_json::Value;

use crate::counter;
use crate::isolation::{Editing, Rank, Scope, homes, store_files, strict, views};
use crate::prompt::{context, prompt};
use crate::run_user::{self, Home};
use crate::site::Site;
use crate::start_error::StartError;
use crate::supervisor::Warrant;

/// The very file that runs: an upgrade may replace the one at its path at any moment, and a supervisor has to understand
/// its daemon.
const THIS_PROGRAM: &str = "/proc/self/exe";

const PROMPT_FILE: &str = "prompt.md";
const TRIGGER_FILE: &str = "trigger.json";
const PARAMS_FILE: &str = "params.json";

/// What the command of a container engine needs of the daemon's environment: where its service and its files are.
const ENGINE_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "REGISTRY_AUTH_FILE",
];

/// Starts the run of a claim.
pub(crate) async fn launch(
    site: &Site,
    agent: &Arc<Agent>,
    claim: &Claim,
) -> Result<SupervisorHandle, StartError> {
    let payload = site.coord.payload(&claim.id).await?;
    let context = context(&claim.job, payload.as_deref().unwrap_or("{}"));
    let launch = prepare(site, agent, claim, &context)?;
    let warrant =
        Warrant::new(site, agent, claim, &launch, declared_keys(agent, &context).map_err(StartError::Agent)?);
    make_run_dir(site, &launch.run_dir)
        .map_err(|error| StartError::Transient(format!("make the run's folder: {error}")))?;
    warrant.write(&launch.run_dir).map_err(|error| {
        // Half a warrant is of no use, and has a secret in it.
        drop(std::fs::remove_dir_all(&launch.run_dir));
        StartError::Transient(format!("write into the run's folder: {error}"))
    })?;
    Ok(spawn(Path::new(THIS_PROGRAM), &launch).await?)
}

/// Makes the folder of a run. The folder of all runs may have been removed while this daemon ran: it is made again.
fn make_run_dir(site: &Site, run_dir: &Path) -> io::Result<()> {
    let make = || DirBuilder::new().mode(0o700).create(run_dir);
    match make() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => site.place.make().and_then(|()| make()),
        made => made,
    }
}

/// The locks that the agent must have before it starts.
pub(crate) fn declared_keys(agent: &Agent, context: &Value) -> Result<Vec<bell_core::key::Key>, String> {
    let rendered = agent.settings.locks.iter().map(|template| render(template, context));
    rendered.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn prepare(site: &Site, agent: &Arc<Agent>, claim: &Claim, context: &Value) -> Result<Launch, StartError> {
    let run_dir = site.place.run_dir(&claim.run);
    let words = prompt(agent, context);
    let mut launch = Launch::new(claim.run.as_str(), &run_dir, Vec::new())?;
    launch.user = run_user::user(agent, site.folder.path())?;
    launch.env = environment(site, agent, claim, &launch)?;
    launch.cwd = site.folder.path().to_owned();
    launch.stdin = Stdin::Text(words.clone());
    launch.files = vec![
        file(PROMPT_FILE, words.clone()),
        file(TRIGGER_FILE, context.to_string()),
        file(PARAMS_FILE, serde_json::to_string(&agent.settings.params).unwrap_or_default()),
    ];
    launch.container = agent.settings.container.as_ref().map(|wanted| container(site, wanted));
    match &agent.program {
        Program::Preset(name) => preset(site, agent, claim, name, &words, &mut launch)?,
        Program::Command(_) | Program::File(_) if agent.settings.model.is_some() => {
            // Better not at all than with another model than the one that was asked for.
            let why = "tell a command which model to use: name it in the command instead";
            return Err(StartError::Agent(why.to_owned()));
        }
        program => launch.argv = argv(site, agent, program),
    }
    launch.timeout_ms = Some(ms(agent.settings.timeout));
    launch.grace_ms = ms(agent.settings.grace);
    launch.limits = limits(&capacity::limits(&agent.settings, Capacity::of_this_machine()));
    let home = run_user::home(agent, site.folder.path(), launch.user.as_ref())?;
    settle(site, agent, &home, &mut launch)?;
    if launch.user.is_some() {
        site.place.make().and_then(|()| site.place.let_pass()).map_err(|error| {
            StartError::Transient(format!("let another user reach the run's folder: {error}"))
        })?;
    }
    launch.worktree = agent.settings.worktree.as_ref().map(|wanted| worktree(site, wanted));
    if launch.worktree.is_some() {
        launch.cwd = PathBuf::from(".");
    }
    isolate(site, agent, &home, &mut launch)?;
    Ok(launch)
}

/// Gives the run its home, and its user's name.
fn settle(site: &Site, agent: &Agent, home: &Home, launch: &mut Launch) -> Result<(), StartError> {
    let mut env = std::mem::take(&mut launch.env);
    if let Some(user) = &launch.user {
        env = env.with("USER", &user.name).with("LOGNAME", &user.name);
    }
    let folder = match home {
        Home::Shared(folder) => folder.clone(),
        Home::Own => make_home(site, agent, launch.user.as_ref())?,
    };
    launch.env = env.with("HOME", folder.display().to_string());
    Ok(())
}

/// Keeps the run away from what is not its own, by the means that this machine has. In a container the engine does that.
fn isolate(site: &Site, agent: &Agent, home: &Home, launch: &mut Launch) -> Result<(), StartError> {
    let (settings, agent_dir) = (&agent.settings, launch.agent_dir());
    let paths = settings.paths.as_ref().map(|paths| landlock(site, paths, &agent_dir));
    if settings.isolation == IsolationLevel::None {
        launch.landlock = paths;
        return Ok(());
    }
    if settings.isolation == IsolationLevel::Strict {
        launch.env = std::mem::take(&mut launch.env).with("TMPDIR", agent_dir.display().to_string());
    }
    let scope = scope(site, agent, home, launch);
    let views = views(&scope);
    if let Some(container) = &mut launch.container {
        container.views = views;
        return Ok(());
    }
    let means = isolation::probe()?.ok_or_else(|| {
        StartError::Agent(format!("isolate it: this machine has no means for it. {}", isolation::HINT))
    })?;
    if means == Means::Landlock {
        // The usual folder for temporary files may be one that something hidden is in.
        launch.env = std::mem::take(&mut launch.env).with("TMPDIR", agent_dir.display().to_string());
    }
    launch.landlock = match settings.isolation {
        IsolationLevel::Strict => {
            let Landlock { read, write, .. } = paths.unwrap_or_default();
            Some(strict(&scope, read, write))
        }
        _ => paths,
    };
    launch.isolation = Some(Isolation { means, views });
    Ok(())
}

/// The home of an agent's own, which is kept between its runs. No other agent sees it.
fn make_home(site: &Site, agent: &Agent, user: Option<&User>) -> Result<PathBuf, StartError> {
    let failed = |error: io::Error| StartError::Transient(format!("make the agent's home: {error}"));
    let home = site.place.home(&agent.name);
    let homes = home.parent().unwrap_or(&home);
    // Others pass through it to their own.
    DirBuilder::new().recursive(true).mode(0o711).create(homes).map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&home).map_err(failed)?;
    match user {
        Some(user) if sudo::is_needed_for(user) => acl::share_folder(&home, user.uid)?,
        Some(user) => std::os::unix::fs::chown(&home, Some(user.uid), Some(user.gid)).map_err(failed)?,
        None => {}
    }
    Ok(home)
}

/// What a run's view depends on.
fn scope(site: &Site, agent: &Agent, home: &Home, launch: &Launch) -> Scope {
    let settings = &agent.settings;
    let project = site.folder.path();
    // The daemon's own user has a home too, whatever its environment says.
    let own_user = || User::find(&rustix::process::geteuid().as_raw().to_string()).ok();
    let home_of_user = launch.user.clone().or_else(own_user).and_then(|user| user.home).map(PathBuf::from);
    let (home, own_home) = match home {
        Home::Shared(home) => (Some(real(home)), None),
        Home::Own => (None, Some(site.place.home(&agent.name))),
    };
    let is_strict = settings.isolation == IsolationLevel::Strict;
    let worktree = launch.worktree.as_ref().map(|_| launch.worktree_dir());
    let is_root =
        launch.user.as_ref().map_or_else(|| rustix::process::geteuid().is_root(), |user| user.uid == 0);
    let named = settings.paths.iter().flat_map(|paths| paths.read.iter().chain(&paths.write));
    let named =
        named.chain(settings.worktree.as_ref().map(|worktree| &worktree.repo)).map(|path| project.join(path));
    let tmp = std::env::var("TMPDIR").ok().map(PathBuf::from);
    let stores = [
        Some(site.store_url.clone()),
        site.loaded().settings.locks.as_ref().map(|url| url.expose().to_owned()),
    ];
    Scope {
        project: project.to_owned(),
        state: site.place.root().to_owned(),
        own: [launch.agent_dir()].into_iter().chain(worktree).chain(own_home.clone()).collect(),
        commands: site.place.bin(),
        program: real(&site.program),
        agents: site.loaded().agents.values().map(|agent| project.join(&agent.folder)).collect(),
        stores: stores.iter().flatten().flat_map(|url| store_files(url)).map(|file| real(&file)).collect(),
        home,
        homes: homes(&std::fs::read_to_string("/etc/passwd").unwrap_or_default()),
        named: named.chain(tmp).chain(home_of_user.filter(|_| !is_strict)).map(|path| real(&path)).collect(),
        path: std::env::var("PATH")
            .unwrap_or_default()
            .split(':')
            .map(|path| real(Path::new(path)))
            .collect(),
        editing: if settings.edits_project { Editing::Allowed } else { Editing::Denied },
        rank: if is_root { Rank::Root } else { Rank::Plain },
    }
}

/// A path without links, as mounts and rules need it. What is not there has none.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn file(name: &str, content: String) -> AgentFile {
    AgentFile { name: name.to_owned(), content }
}

fn argv(site: &Site, agent: &Agent, program: &Program) -> Vec<String> {
    let in_agent = |name: &str| site.folder.path().join(&agent.folder).join(name).display().to_string();
    match program {
        Program::Command(words) => {
            let mut words = words.clone();
            if let Some(first) = words.first_mut().filter(|first| first.contains('/')) {
                *first = in_agent(first);
            }
            words
        }
        Program::File(path) => vec![site.folder.path().join(path).display().to_string()],
        Program::Preset(_) => Vec::new(),
    }
}

/// A known agent program: how it is run, how it gets its prompt, and how it is told of the run's MCP server. A project's
/// own preset wins over ours.
fn preset(
    site: &Site,
    agent: &Agent,
    claim: &Claim,
    name: &str,
    prompt: &str,
    launch: &mut Launch,
) -> Result<(), StartError> {
    let mut presets = Presets::built_in()?;
    let is_held_back = site.loaded().definitions.held_back.contains(PRESETS_FOLDER);
    let own = site.folder.read(&format!("{PRESETS_FOLDER}/{name}.toml"), CONFIG_BYTES_MAX);
    if let Some(own) = own.ok().filter(|_| !is_held_back) {
        presets.add(name, &String::from_utf8_lossy(&own))?;
    }
    let agent_dir = launch.agent_dir();
    let (url, token) = (counter::url(&agent_dir), claim.session.token().expose());
    let bell = site.place.bin().join("bell");
    let mcp = Some(McpServer { url: &url, token: &token, bell: &bell });
    let given = Given { prompt, agent_dir: &agent_dir, model: agent.settings.model.as_deref(), mcp };
    let rendered = presets.get(name).and_then(|preset| preset.render(&given))?;
    // It brings a file of the same name and words.
    launch.files.retain(|file| file.name != PROMPT_FILE);
    rendered.apply(launch);
    Ok(())
}

/// A secret that can't be had. One that is there, but can't be read at this moment, says nothing about the agent.
fn not_resolved(error: SecretError) -> StartError {
    let reason = error.to_string();
    match error {
        SecretError::File { fault: ReadFault::Io(error), .. } if Kind::of_io(&error).is_transient() => {
            StartError::Transient(reason)
        }
        _ => StartError::Agent(reason),
    }
}

/// What the agent finds in its environment: the allow-list, what it asks for by name, its secrets, and who it is.
fn environment(
    site: &Site,
    agent: &Agent,
    claim: &Claim,
    launch: &Launch,
) -> Result<Environment, StartError> {
    // The daemon's own folder for temporary files is closed to other users, and not there in a container.
    let has_another = launch.user.is_some() || agent.settings.container.is_some();
    let taken_over = std::env::vars().filter(|(name, _)| name != "TMPDIR" || !has_another);
    let (mut env, agent_dir) = (Environment::allowed(taken_over), launch.agent_dir());
    for name in &agent.settings.env {
        if let Ok(value) = std::env::var(name.as_str()) {
            env = env.with(name.as_str(), value);
        }
    }
    let variable = |name: &str| std::env::var(name).ok();
    for (name, secret) in &agent.settings.secrets.0 {
        let value = secret.resolve(&site.folder, &variable).map_err(not_resolved)?;
        env = env.with(name.as_str(), value.expose());
    }
    let path = env.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned();
    let path = format!("{}:{path}", site.place.bin().display());
    let at = |name: &str| agent_dir.join(name).display().to_string();
    Ok(env
        .with("PATH", path)
        .with("BELL_AGENT", agent.name.as_str())
        .with("BELL_JOB", claim.id.as_str())
        .with("BELL_PROMPT_FILE", at(PROMPT_FILE))
        .with("BELL_TRIGGER_FILE", at(TRIGGER_FILE))
        .with("BELL_PARAMS_FILE", at(PARAMS_FILE)))
}

fn limits(wanted: &settings::Limits) -> Limits {
    Limits {
        cpu_seconds: wanted.cpu.map(|cpu| cpu.get().as_secs().max(1)),
        cpu_hundredths: wanted.cpus.map(settings::Cpus::hundredths),
        cpu_weight: None,
        memory_bytes: wanted.memory.map(settings::Size::bytes),
        open_files: wanted.files,
        usual_open_files: crate::files::usual(),
        processes: wanted.processes,
        output_bytes: wanted.output.bytes(),
    }
}

fn landlock(site: &Site, paths: &settings::Paths, agent_dir: &Path) -> Landlock {
    let absolute =
        |paths: &[PathBuf]| paths.iter().map(|path| site.folder.path().join(path)).collect::<Vec<_>>();
    let mut write = absolute(&paths.write);
    write.push(agent_dir.to_owned());
    let mut read = absolute(&paths.read);
    read.extend([site.place.bin(), site.program.clone()]);
    Landlock { read, write, system: true }
}

/// The container sees the project at the place it has here, with the socket of the run in it, and Bellwether itself; and
/// nothing else of this machine.
fn container(site: &Site, wanted: &settings::Container) -> Container {
    let engine = match wanted.runtime {
        settings::Runtime::Docker => "docker",
        settings::Runtime::Podman => "podman",
    };
    let project = site.folder.path().to_owned();
    let engine_env =
        ENGINE_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    Container {
        engine: engine.to_owned(),
        engine_env: engine_env.collect(),
        image: wanted.image.clone(),
        mounts: vec![
            Mount { from: project.clone(), to: project, access: MountAccess::Write },
            Mount { from: site.program.clone(), to: site.program.clone(), access: MountAccess::Read },
        ],
        network: None,
        views: Views::default(),
    }
}

fn worktree(site: &Site, wanted: &settings::Worktree) -> Worktree {
    let after = match wanted.keep {
        Keep::Always => AfterRun::Keep,
        Keep::Changed => AfterRun::RemoveIfClean,
        Keep::Never => AfterRun::Remove,
    };
    Worktree { repo: site.folder.path().join(&wanted.repo), at: wanted.start.clone(), after }
}

fn ms(length: settings::Length) -> u64 {
    u64::try_from(length.get().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    fn unread(fault: ReadFault) -> StartError {
        not_resolved(SecretError::File { path: "key".to_owned(), fault })
    }

    #[test]
    fn a_secret_that_can_not_be_read_at_this_moment_says_nothing_about_the_agent() {
        for errno in [Errno::MFILE, Errno::NOMEM, Errno::IO] {
            assert!(matches!(unread(ReadFault::Io(errno.into())), StartError::Transient(_)), "{errno}");
        }
        assert!(matches!(unread(ReadFault::Io(Errno::ACCESS.into())), StartError::Agent(_)));
        assert!(matches!(unread(ReadFault::Missing), StartError::Agent(_)));
        let variable = SecretError::NoVariable("KEY".to_owned());
        assert!(matches!(not_resolved(variable), StartError::Agent(_)));
    }
}
