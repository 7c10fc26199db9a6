//! Everything that is needed to run one agent, as data: the daemon writes it, the supervisor reads it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::container::Container;
use crate::env::Environment;
use crate::error::{Error, Kind, Result};
use crate::isolation::Isolation;
use crate::run_dir::{FOR_AGENT, RunDir, WORKTREE};
use crate::sudo;
use crate::user::User;

/// Between TERM and KILL, unless the launch says otherwise.
const DEFAULT_GRACE_MS: u64 = 10_000;

/// As much output as is kept, unless the launch says otherwise.
const DEFAULT_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Run ids become names of folders, cgroups and containers.
const MAX_RUN_BYTES: usize = 64;

/// One run of one agent. It holds secrets, so its file is readable by its owner only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The run: 1 to 64 letters, digits, `-` and `_`.
    pub run: String,
    /// Tells this start of the run from any other; marks its processes.
    pub nonce: String,
    /// The folder that is the run's own.
    pub run_dir: PathBuf,
    /// The program and its arguments. No shell ever reads them.
    pub argv: Vec<String>,
    /// Where the agent starts; in a worktree, where below its root.
    pub cwd: PathBuf,
    /// All that the agent finds in its environment, beside the run's mark.
    pub env: Environment,
    /// What the agent reads.
    pub stdin: Stdin,
    /// Files that are made for the agent in [`Launch::agent_dir`] before it starts.
    pub files: Vec<AgentFile>,
    /// How long the run may take.
    pub timeout_ms: Option<u64>,
    /// How long TERM has before KILL follows.
    pub grace_ms: u64,
    /// What the run may use.
    pub limits: Limits,
    /// Who the agent runs as; whoever the supervisor is, if nobody.
    pub user: Option<User>,
    /// What the agent may do beyond its user's rights.
    pub privileges: Privileges,
    /// Which files the agent can reach; all that its user can, if nothing is said.
    pub landlock: Option<Landlock>,
    /// What is hidden from the agent, and read-only to it; nothing, if nothing is said.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// A git worktree of its own.
    pub worktree: Option<Worktree>,
    /// A container to run in.
    pub container: Option<Container>,
    /// Whether the run gets a cgroup.
    pub cgroup: Cgroup,
}

/// What the agent reads from its standard input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// Nothing.
    Null,
    /// A file, opened as the agent's user.
    File(PathBuf),
    /// This text, by way of a file in memory.
    Text(String),
}

/// A file that is made for the agent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFile {
    /// Its name, without any folder.
    pub name: String,
    /// What is in it; may be secret.
    pub content: String,
}

impl std::fmt::Debug for AgentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AgentFile").field(&self.name).finish()
    }
}

/// What a run may use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time of the whole run.
    pub cpu_seconds: Option<u64>,
    /// Processors that a container may use at one time, in hundredths of one.
    #[serde(default)]
    pub cpu_hundredths: Option<u32>,
    /// Its share of the processors beside others: 1 to 10,000, 100 is usual.
    pub cpu_weight: Option<u32>,
    /// Memory of the whole run.
    pub memory_bytes: Option<u64>,
    /// Files that one process may have open.
    pub open_files: Option<u64>,
    /// Where `open_files` says nothing: files that a process may have open unless it asks for more. What holds for the
    /// supervisor, if not given.
    #[serde(default)]
    pub usual_open_files: Option<u64>,
    /// Processes at one time.
    pub processes: Option<u64>,
    /// Output that is kept. What comes after it is read and dropped, but for the last of it.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_seconds: None,
            cpu_hundredths: None,
            cpu_weight: None,
            memory_bytes: None,
            open_files: None,
            usual_open_files: None,
            processes: None,
            output_bytes: DEFAULT_OUTPUT_BYTES,
        }
    }
}

/// What an agent may do beyond the rights of its user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privileges {
    /// No capability, and no program can give it one. Root without them is an ordinary user that owns root's files.
    None,
    /// Whatever the supervisor has. Only for agents that are trusted like root.
    Keep,
}

/// The parts of the file system that an agent can reach; everything else is denied by the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Landlock {
    /// What it may read and run.
    pub read: Vec<PathBuf>,
    /// What it may change too.
    pub write: Vec<PathBuf>,
    /// Also what programs commonly need, where it exists: libraries, `/etc`, `/proc`, harmless devices.
    pub system: bool,
}

/// A git worktree that is made below the run directory before the agent starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worktree {
    /// The repository.
    pub repo: PathBuf,
    /// The commit or branch to begin at; HEAD is not moved.
    pub at: String,
    /// What becomes of it at the end.
    pub after: AfterRun,
}

/// What becomes of a worktree when its run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterRun {
    /// It goes, unless it holds changes or commits that no branch has.
    RemoveIfClean,
    /// It stays.
    Keep,
    /// It goes, with whatever is in it.
    Remove,
}

/// Whether a run gets a cgroup of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cgroup {
    /// Below the supervisor's own, if the machine allows it.
    Auto,
    /// Below this folder, if the machine allows it.
    Under(PathBuf),
    /// None.
    Never,
}

impl Launch {
    /// A launch of `argv` for this run with nothing else set.
    pub fn new(run: impl Into<String>, run_dir: impl Into<PathBuf>, argv: Vec<String>) -> Result<Self> {
        let run_dir = run_dir.into();
        Ok(Self {
            run: run.into(),
            nonce: nonce()?,
            cwd: run_dir.join(FOR_AGENT),
            run_dir,
            argv,
            env: Environment::empty(),
            stdin: Stdin::Null,
            files: Vec::new(),
            timeout_ms: None,
            grace_ms: DEFAULT_GRACE_MS,
            limits: Limits::default(),
            user: None,
            privileges: Privileges::None,
            landlock: None,
            isolation: None,
            worktree: None,
            container: None,
            cgroup: Cgroup::Auto,
        })
    }

    /// The folder in the run directory that belongs to the agent: its files are made there, and it may write
    /// there.
    pub fn agent_dir(&self) -> PathBuf {
        agent_dir(&self.run_dir)
    }

    /// The folder in the run directory where its git worktree is, if it has one.
    pub fn worktree_dir(&self) -> PathBuf {
        self.run_dir.join(WORKTREE)
    }

    /// The agent's user, if only sudo can start processes of it and signal them. In a container the engine does both.
    pub(crate) fn user_by_sudo(&self) -> Option<&User> {
        self.user.as_ref().filter(|user| self.container.is_none() && sudo::is_needed_for(user))
    }

    /// The launch of a run.
    pub fn read(run_dir: &Path) -> Result<Self> {
        RunDir::open(run_dir)?.launch()
    }

    /// Refuses what can't be run, before anything is made for it.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |message: &str, hint: &str| Err(Error::new(Kind::Invalid, message).hint(hint));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.run.is_empty() || self.run.len() > MAX_RUN_BYTES || !self.run.chars().all(plain) {
            return invalid(&format!("name a run {:?}", self.run), "Use 1 to 64 letters, digits, - and _.");
        }
        if self.argv.first().is_none_or(String::is_empty) || self.argv.iter().any(|a| a.contains('\0')) {
            return invalid("run nothing: no program is named", "Set the agent's `run`.");
        }
        if !self.run_dir.is_absolute() || !(self.cwd.is_absolute() || self.worktree.is_some()) {
            return invalid("use a relative path for a run", "Give absolute paths.");
        }
        for file in &self.files {
            if file.name.is_empty() || file.name.starts_with('.') || file.name.contains(['/', '\0']) {
                return invalid(&format!("make a file called {:?}", file.name), "Use a plain name.");
            }
        }
        if self.limits.cpu_weight.is_some_and(|weight| !(1..=10_000).contains(&weight)) {
            return invalid("use that processor weight", "Use 1 to 10,000; 100 is usual.");
        }
        if self.container.is_some() && (self.landlock.is_some() || self.isolation.is_some()) {
            return invalid(
                "restrict the files of a container by landlock",
                "Mount into the container only what it may reach.",
            );
        }
        self.env.check()
    }
}

/// The agent's own folder in a run directory.
pub fn agent_dir(run_dir: &Path) -> PathBuf {
    run_dir.join(FOR_AGENT)
}

fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Kind::Unavailable, format!("get random bytes for a run: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch::new("run-1", "/runs/run-1", vec!["true".into()]).unwrap()
    }

    #[test]
    fn a_launch_reads_back_as_it_was_written() {
        let mut launch = launch();
        launch.env = Environment::empty().with("KEY", "value");
        launch.stdin = Stdin::Text("prompt".into());
        launch.landlock = Some(Landlock::default());
        let written = serde_json::to_string(&launch).unwrap();
        let read: Launch = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
    }

    #[test]
    fn two_starts_never_share_a_nonce() {
        assert_ne!(launch().nonce, launch().nonce);
    }

    #[test]
    fn secrets_of_a_launch_are_not_shown() {
        let mut launch = launch();
        launch.env = Environment::empty().with("KEY", "canary");
        launch.files.push(AgentFile { name: "mcp.json".into(), content: "canary".into() });
        assert!(!format!("{launch:?}").contains("canary"));
    }

    #[test]
    fn what_can_not_be_run_is_refused_before_anything_is_made() {
        let wrong: &[fn(&mut Launch)] = &[
            |l| l.run = "../other".into(),
            |l| l.run = String::new(),
            |l| l.argv.clear(),
            |l| l.argv = vec![String::new()],
            |l| l.run_dir = "runs".into(),
            |l| l.cwd = "here".into(),
            |l| l.limits.cpu_weight = Some(0),
            |l| l.files.push(AgentFile { name: "../x".into(), content: String::new() }),
            |l| l.env = Environment::empty().with("A=", "b"),
        ];
        for change in wrong {
            let mut launch = launch();
            change(&mut launch);
            let error = launch.check().unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(!error.advice().is_empty(), "{error}");
        }
        assert!(launch().check().is_ok());
    }
}
