//! A git worktree for one run: made before the agent starts, taken away after if nothing would be lost.
//!
//! Git runs as the agent's user and without the repository's hooks: a hook is a program that somebody else
//! chose.

use std::path::Path;
use std::time::Duration;

use crate::children::Children;
use crate::env::Environment;
use crate::error::{Error, Kind, Result};
use crate::launch::{AfterRun, Launch, Limits, Privileges, Worktree};
use crate::stage::{Input, Stage};
use crate::tool;

/// Large repositories take their time to check out.
const GIT_LIMIT: Duration = Duration::from_secs(300);

const NO_HOOKS: &[&str] = &["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"];

/// Makes the worktree in a folder that is there and empty.
pub(crate) async fn make(children: &mut Children, launch: &Launch, worktree: &Worktree) -> Result<()> {
    let doing = format!("make a worktree of {} at {}", worktree.repo.display(), worktree.at);
    if worktree.at.is_empty() || worktree.at.starts_with('-') {
        let error = Error::new(Kind::Invalid, format!("{doing}: that is no name of a commit"));
        return Err(error.hint("Name a branch, a tag or a commit."));
    }
    let folder = launch.worktree_dir().display().to_string();
    let arguments = ["worktree", "add", "--detach", &folder, &worktree.at];
    git(children, launch, &worktree.repo, &arguments, &doing).await.map(drop).map_err(|error| {
        error.hint("Look whether the repository and the name are right, and open to the agent's user.")
    })
}

/// Takes the worktree away, unless it is to be kept or holds something that is nowhere else.
pub(crate) async fn remove(children: &mut Children, launch: &Launch, worktree: &Worktree) -> Result<()> {
    let folder = launch.worktree_dir();
    let goes = match worktree.after {
        AfterRun::Keep => false,
        AfterRun::Remove => true,
        AfterRun::RemoveIfClean => is_clean(children, launch, &folder).await?,
    };
    if !goes {
        return Ok(());
    }
    let name = folder.display().to_string();
    let arguments = ["worktree", "remove", "--force", &name];
    let removed = git(children, launch, &worktree.repo, &arguments, "remove the worktree").await;
    // An isolated git can empty the folder, but not remove it: something is mounted there.
    match std::fs::remove_dir(&folder) {
        Ok(()) => Ok(()),
        Err(_) => removed.map(drop),
    }
}

/// Whether nothing is changed, and some branch or tag has every commit.
async fn is_clean(children: &mut Children, launch: &Launch, folder: &Path) -> Result<bool> {
    let doing = "look at the worktree";
    let changes = git(children, launch, folder, &["status", "--porcelain"], doing).await?;
    if !changes.trim().is_empty() {
        return Ok(false);
    }
    let named = ["for-each-ref", "--contains", "HEAD", "--count=1", "--format=%(refname)"];
    Ok(!git(children, launch, folder, &named, doing).await?.trim().is_empty())
}

async fn git(
    children: &mut Children,
    launch: &Launch,
    folder: &Path,
    arguments: &[&str],
    doing: &str,
) -> Result<String> {
    let words = ["git"].iter().chain(NO_HOOKS).chain(arguments).map(|word| (*word).to_owned());
    let path = launch.env.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let home = launch.env.get("HOME").unwrap_or("/");
    let env = Environment::empty().with("PATH", path).with("HOME", home).with("GIT_TERMINAL_PROMPT", "0");
    let stage = Stage {
        supervisor: std::process::id(),
        argv: words.collect(),
        cwd: folder.to_owned(),
        env: crate::supervise::marked(env, launch),
        stdin: Input::Null,
        limits: Limits::default(),
        user: launch.user.clone(),
        privileges: Privileges::None,
        landlock: None,
        isolation: launch.isolation.clone(),
        shared: vec![launch.worktree_dir()],
    };
    tool::run(children, stage, GIT_LIMIT).await?.checked(doing)
}
