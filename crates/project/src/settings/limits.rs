//! What a run may use, see and leave behind.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cpus, Length, Size};

/// What one run may use. Whoever needs more is stopped, and only that run suffers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// CPU time of the whole run. Default: no limit.
    pub cpu: Option<Length>,
    /// Processors that a run in a container may use at one time, such as 1.5. Default: half of the machine's, at least one.
    pub cpus: Option<Cpus>,
    /// Memory of the whole run. Default: no limit; in a container half of the machine's.
    pub memory: Option<Size>,
    /// Files that each of its processes may have open. Default: as the daemon.
    pub files: Option<u64>,
    /// Processes at one time; in a container threads count too. Default: no limit; in a container 4,096.
    pub processes: Option<u64>,
    /// Output that is kept; the rest is read and dropped.
    pub output: Size,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: None,
            cpus: None,
            memory: None,
            files: None,
            processes: None,
            output: Size::from_bytes(64 << 20),
        }
    }
}

/// What a run may touch of the file system, enforced by landlock. Relative paths start at the project.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Paths {
    /// What it may read and execute, beside the system's programs.
    pub read: Vec<PathBuf>,
    /// What it may change.
    pub write: Vec<PathBuf>,
}

/// A git worktree of its own for each run, so that two runs never share a checkout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Worktree {
    /// The repository, relative to the project. Default: the project itself.
    pub repo: PathBuf,
    /// What to check out.
    pub start: String,
    /// What to keep when the run has ended.
    pub keep: Keep,
}

impl Default for Worktree {
    fn default() -> Self {
        Self { repo: PathBuf::from("."), start: "HEAD".to_owned(), keep: Keep::default() }
    }
}

/// When a worktree stays after its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// If something in it has changed.
    #[default]
    Changed,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// The container that a run happens in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// The command that runs containers.
    #[serde(default)]
    pub runtime: Runtime,
    /// The image.
    pub image: String,
}

/// A command that runs containers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// `docker`
    #[default]
    Docker,
    /// `podman`
    Podman,
}
