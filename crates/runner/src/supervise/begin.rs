//! Starting the agent: its folder, its worktree, its container, and then the process itself.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown, lchown};
use std::path::{Path, PathBuf};

use tokio::net::unix::pipe;

use super::{marked, now_ms};
use crate::acl;
use crate::cgroup::Group;
use crate::children::Children;
use crate::container;
use crate::error::{Error, Kind, Result};
use crate::launch::{Launch, Limits, Privileges, Stdin};
use crate::process::Stat;
use crate::run_dir::{COVERS, ENGINE_ENV, RunDir, WORKTREE};
use crate::stage::{Input, Stage};
use crate::state::State;
use crate::tool::{self, Main, Ready};
use crate::user::User;
use crate::worktree;

/// An agent that runs.
pub(super) struct Begun {
    /// Its main process.
    pub(super) main: Main,
    /// What it prints.
    pub(super) out: pipe::Receiver,
    /// What it complains about.
    pub(super) err: pipe::Receiver,
}

/// Starts the process that will be the agent, and lets it get ready.
pub(super) fn ready(children: &mut Children, launch: &Launch, group: Option<&Group>) -> Result<Ready> {
    tool::ready(children, group.map(Group::path), Some(&launch.nonce), launch.user_by_sudo())
}

/// Makes what the agent finds in its folder, and forgets on disk what only the supervisor has to know from now on. The folder
/// itself becomes the agent's in [`begin`]: until then no process of its user can put something in the place of a file.
pub(super) fn prepare(dir: &RunDir, launch: &Launch) -> Result<()> {
    dir.forget_environment(launch).map_err(Error::of_machine)?;
    let agent_dir = launch.agent_dir();
    make_folder(&agent_dir)?;
    for file in &launch.files {
        make_file(launch, &agent_dir.join(&file.name), &file.content)?;
    }
    Ok(())
}

/// Starts the agent and says so in `state.json`. It finds what [`prepare`] has made.
pub(super) async fn begin(
    children: &mut Children,
    dir: &RunDir,
    launch: &Launch,
    state: &mut State,
    ready: Ready,
) -> Result<Begun> {
    give(launch, &launch.agent_dir())?;
    if let Some(worktree) = &launch.worktree {
        make_folder(&dir.path(WORKTREE))?;
        give(launch, &dir.path(WORKTREE))?;
        worktree::make(children, launch, worktree).await?;
    }
    let stage = stage(dir, launch)?;
    state.started_ms = Some(now_ms());
    let started = ready.start(stage).await.inspect_err(|_| state.started_ms = None);
    let started = started.map_err(|error| match &launch.container {
        Some(wanted) if error.kind() == Kind::NotFound => container::no_engine(wanted),
        _ => error,
    })?;
    // It has not been waited for, so even one that is over already is still listed; but a delegate waits for its own.
    let agent = Stat::of(started.main.program()).map(|stat| stat.identity).or_else(|| started.main.root());
    state.agent = Some(agent.ok_or_else(|| Error::new(Kind::Unavailable, "find the agent's process"))?);
    dir.set_state(state)?;
    Ok(Begun { main: started.main, out: started.out, err: started.err })
}

fn stage(dir: &RunDir, launch: &Launch) -> Result<Stage> {
    let stdin = match &launch.stdin {
        Stdin::Null => Input::Null,
        Stdin::File(path) => Input::Theirs(path.clone()),
        Stdin::Text(text) => Input::Text(text.clone()),
    };
    let stage = Stage {
        supervisor: std::process::id(),
        argv: launch.argv.clone(),
        cwd: working_folder(launch),
        env: marked(launch.env.clone(), launch),
        stdin,
        limits: launch.limits.clone(),
        user: launch.user.clone(),
        privileges: launch.privileges,
        landlock: launch.landlock.clone(),
        isolation: launch.isolation.clone(),
        shared: vec![launch.agent_dir(), launch.worktree_dir()],
    };
    let Some(wanted) = &launch.container else { return Ok(stage) };
    // The client is ours: what holds for the agent holds inside, by the engine's hand.
    dir.write_private(ENGINE_ENV, container::env_file(&stage.env)?.as_bytes())?;
    let covers = dir.path(COVERS);
    container::make_covers(wanted, &covers)?;
    Ok(Stage {
        argv: container::run_argv(launch, wanted, &stage.cwd, &dir.path(ENGINE_ENV), &covers)?,
        // Engines may leave files where they were started.
        cwd: launch.run_dir.clone(),
        env: marked(wanted.engine_env.clone(), launch),
        limits: Limits::default(),
        user: None,
        // Podman has no service that makes the container: its client does.
        privileges: Privileges::Keep,
        landlock: None,
        isolation: None,
        shared: Vec::new(),
        ..stage
    })
}

/// In a worktree a relative folder is below its root.
fn working_folder(launch: &Launch) -> PathBuf {
    match &launch.worktree {
        Some(_) => launch.worktree_dir().join(&launch.cwd),
        None => launch.cwd.clone(),
    }
}

fn make_folder(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(format!("make {}", path.display()), error).of_machine();
    match DirBuilder::new().mode(0o700).create(path) {
        // The caller may have put something into it.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let about = fs::symlink_metadata(path).map_err(failed)?;
            if about.is_dir() { Ok(()) } else { Err(failed(std::io::ErrorKind::NotADirectory.into())) }
        }
        made => made.map_err(failed),
    }
}

fn make_file(launch: &Launch, path: &Path, content: &str) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(format!("make {}", path.display()), error).of_machine();
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = made.map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    if let Some(user) = launch.user_by_sudo() {
        return acl::share_file(path, user.uid);
    }
    let Some((user, uid, gid)) = new_owner(launch) else { return Ok(()) };
    fchown(&file, uid, gid).map_err(|error| not_given(path, user, error))
}

/// Makes the agent's user the owner of a folder, or lets it use the folder where owners can't be changed.
fn give(launch: &Launch, path: &Path) -> Result<()> {
    if let Some(user) = launch.user_by_sudo() {
        return acl::share_folder(path, user.uid);
    }
    let Some((user, uid, gid)) = new_owner(launch) else { return Ok(()) };
    // What became a link in the meantime is not followed.
    lchown(path, uid, gid).map_err(|error| not_given(path, user, error))
}

/// Who the agent runs as, if that is somebody else.
fn new_owner(launch: &Launch) -> Option<(&User, Option<u32>, Option<u32>)> {
    let user = launch.user.as_ref()?;
    let is_other = rustix::process::geteuid().as_raw() != user.uid;
    is_other.then_some((user, Some(user.uid), Some(user.gid)))
}

fn not_given(path: &Path, user: &User, error: std::io::Error) -> Error {
    Error::io(format!("give {} to {}", path.display(), user.name), error)
        .hint("Start the daemon as root, or leave `user` out.")
}
