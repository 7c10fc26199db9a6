//! Looking at the machine of a project: what is there, what is allowed, what is left. Nothing is changed and nothing judged.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bell_project::problem::Problem;
use bell_project::secret::SECRETS_FOLDER;
use bell_runner::cgroup::{Ground, ground};
use bell_runner::isolation::{self, Means};
use bell_runner::presets::Presets;
use bell_runner::stage::has_landlock;
use rustix::process::{Resource, geteuid, getrlimit};

use super::Project;
use crate::answer::Refusal;
use crate::check::{presets, problems_of};

/// What was seen.
pub(super) struct Machine {
    /// The kernel's release.
    pub(super) kernel: String,
    /// The folder `.bell`: its mode, and whether it is this user's. None if it is not there.
    pub(super) bell: Option<(u32, bool)>,
    /// Secrets that others than their owner can read or change, with their modes.
    pub(super) open_secrets: Vec<(String, u32)>,
    /// Bytes that are free for this user where the project lies.
    pub(super) free_bytes: Option<u64>,
    /// How far the store's clock is ahead of this machine's.
    pub(super) ahead_ms: Option<i64>,
    /// Control groups.
    pub(super) ground: Ground,
    /// Whether the kernel has landlock.
    pub(super) landlock: bool,
    /// How runs can be isolated, if they can be.
    pub(super) isolation: Option<Means>,
    /// Whether the kernel lets users make user namespaces.
    pub(super) user_namespaces: bool,
    /// Whether this user is root.
    pub(super) is_root: bool,
    /// Folders that one user may watch.
    pub(super) watches: Option<u64>,
    /// Files that this process may have open.
    pub(super) open_files: Option<u64>,
    /// Where programs are looked for.
    pub(super) path: Vec<PathBuf>,
    /// What is wrong with the project and around it.
    pub(super) problems: Vec<Problem>,
    /// Known agent programs.
    pub(super) presets: Presets,
}

impl Machine {
    /// Whether there is such a program.
    pub(super) fn has_program(&self, name: &str) -> bool {
        let is_executable = |path: &Path| {
            fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        };
        self.path.iter().any(|folder| is_executable(&folder.join(name)))
    }
}

/// Looks at the machine.
pub(super) fn look(project: &Project, ahead_ms: Option<i64>) -> Result<Machine, Refusal> {
    let mut problems = Vec::new();
    let presets = presets(&project.folder, &mut problems)?;
    problems.extend(problems_of(&project.folder, &project.loaded, &presets));
    let root = project.folder.path();
    let here = rustix::fs::statvfs(root).ok();
    Ok(Machine {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        bell: fs::symlink_metadata(root.join(".bell"))
            .ok()
            .map(|about| (about.mode() & 0o777, about.uid() == geteuid().as_raw())),
        open_secrets: open_secrets(&root.join(SECRETS_FOLDER)),
        free_bytes: here.map(|figures| figures.f_bavail.saturating_mul(figures.f_frsize)),
        ahead_ms,
        ground: ground(),
        landlock: has_landlock(),
        isolation: isolation::probe().map_err(no_process)?,
        user_namespaces: number("/proc/sys/user/max_user_namespaces").is_some_and(|count| count > 0),
        is_root: geteuid().is_root(),
        watches: number("/proc/sys/fs/inotify/max_user_watches"),
        open_files: getrlimit(Resource::Nofile).current,
        path: std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default(),
        problems,
        presets,
    })
}

/// This machine lacks what a process needs.
fn no_process(error: bell_runner::Error) -> Refusal {
    Refusal::unavailable(
        format!("could not {error}"),
        "Look at the limits of this user (ulimit -a) and the memory of the machine.",
    )
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The folder of secrets and what is in it, as far as others have access to it.
fn open_secrets(folder: &Path) -> Vec<(String, u32)> {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = std::iter::once(folder.to_owned()).chain(inside);
    let open = all.filter_map(|path| {
        let about = fs::symlink_metadata(&path).ok()?;
        let mode = about.mode() & 0o777;
        let name = path.file_name()?.to_string_lossy().into_owned();
        (mode & 0o077 != 0 && !about.is_symlink()).then_some((name, mode))
    });
    open.collect()
}
