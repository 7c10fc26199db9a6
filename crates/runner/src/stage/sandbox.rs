//! Which files the agent can reach, held by the kernel (landlock).

use std::fmt::Display;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::error::{Error, Kind, Result};
use crate::isolation::{Allowed, View, Views, allowed};
use crate::launch::Landlock;

/// What programs commonly read or run.
const SYSTEM_READ: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/run/systemd/resolve",
    "/sys/devices",
    "/sys/fs/cgroup",
];

/// What programs commonly write to without leaving anything behind.
const SYSTEM_WRITE: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
    "/dev/fd",
];

/// The newest set of rights that is asked for; older kernels hold what they know of it.
const ABI_WANTED: ABI = ABI::V6;

/// Rules that allow everything, but keep this process and whatever it becomes apart from all others: it can neither look
/// into them (their environment, their files under `/proc`) nor signal them.
///
/// Kernels before 6.12 know no rule without files. The one that is made there denies the making of block devices and, as
/// every rule for files does, mounts.
pub(super) fn apart() -> Result<RulesetCreated> {
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(|set| set.scope(Scope::AbstractUnixSocket))
        .and_then(Ruleset::create);
    if let Ok(set) = scoped {
        return Ok(set);
    }
    // Moving a file to another folder is denied by every rule for files that does not allow it; the first version can't.
    let set = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer | AccessFs::MakeBlock)
        .and_then(Ruleset::create)
        .map_err(unsupported)?;
    allow(set, Path::new("/"), AccessFs::Refer.into())
}

/// Rules around what is hidden, for a kernel that lets nobody make mounts. Opens every path as whoever this process still
/// is.
pub(super) fn prepare_around(views: &Views, rules: Option<&Landlock>) -> Result<RulesetCreated> {
    let roots = rules.map_or_else(|| vec![(PathBuf::from("/"), Allowed::Change)], roots);
    let mut views = views.clone();
    super::mounts::cgroups().into_iter().for_each(|path| views.close(path, View::ReadOnly));
    let mut set = nothing_allowed().map_err(unsupported)?;
    for (path, right) in allowed(&views, &roots, &entries) {
        // What is gone by now, or closed to this user anyway, needs no rule.
        if let Ok(opened) = PathFd::new(&path) {
            set = add(set, opened, &path, access(right))?;
        }
    }
    Ok(set)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // What a link leads to is allowed where it is.
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .map(|entry| entry.path())
        .collect()
}

/// What these rules let an agent reach.
fn roots(rules: &Landlock) -> Vec<(PathBuf, Allowed)> {
    let system = |paths: &'static [&str]| paths.iter().filter(|_| rules.system).map(PathBuf::from);
    let read = rules.read.iter().cloned().chain(system(SYSTEM_READ)).map(|path| (path, Allowed::Read));
    let write = rules.write.iter().cloned().chain(system(SYSTEM_WRITE)).map(|path| (path, Allowed::Change));
    read.chain(write).collect()
}

fn access(right: Allowed) -> BitFlags<AccessFs> {
    match right {
        Allowed::List => AccessFs::ReadDir.into(),
        Allowed::Read => AccessFs::from_read(ABI_WANTED),
        Allowed::Change => AccessFs::from_all(ABI_WANTED),
    }
}

/// Opens every path as whoever this process still is.
pub(super) fn prepare(rules: &Landlock) -> Result<RulesetCreated> {
    let mut set = nothing_allowed().map_err(unsupported)?;
    let read = AccessFs::from_read(ABI_WANTED);
    let write = AccessFs::from_all(ABI_WANTED);
    for (paths, access) in [(&rules.read, read), (&rules.write, write)] {
        for path in paths {
            set = allow(set, path, access)?;
        }
    }
    if rules.system {
        for (paths, access) in [(SYSTEM_READ, read), (SYSTEM_WRITE, write)] {
            for path in paths.iter().map(PathBuf::from).filter(|path| path.exists()) {
                set = allow(set, &path, access)?;
            }
        }
    }
    Ok(set)
}

/// Whether the kernel takes rules at all. It holds nobody to them.
pub(super) fn is_supported() -> bool {
    nothing_allowed().is_ok()
}

/// Rules that deny everything.
fn nothing_allowed() -> std::result::Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        // A kernel that knows no landlock at all must not run an agent that counts on it.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))?
        // An agent that can signal its supervisor could end it.
        .scope(Scope::Signal)?
        .scope(Scope::AbstractUnixSocket)?
        .create()
}

/// Holds for this process and whatever it becomes or starts, for ever.
pub(super) fn enforce(rules: RulesetCreated) -> Result<()> {
    let status = rules.restrict_self().map_err(unsupported)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(unsupported("it is not enabled"));
    }
    Ok(())
}

fn allow(set: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated> {
    let failed = |error: &dyn Display| {
        Error::new(Kind::NotFound, format!("let the agent reach {}: {error}", path.display()))
            .hint("Take the path out of the agent's rules, or make it.")
    };
    let opened = PathFd::new(path).map_err(|error| failed(&error))?;
    add(set, opened, path, access)
}

fn add(
    set: RulesetCreated,
    opened: PathFd,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated> {
    // Rights on folders mean nothing for a file, and the kernel refuses them.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI_WANTED) };
    if access.is_empty() {
        return Ok(set);
    }
    let added = set.add_rule(PathBeneath::new(opened, access));
    added.map_err(|error| unsupported(format!("{}: {error}", path.display())))
}

fn unsupported(error: impl Display) -> Error {
    Error::new(Kind::Unsupported, format!("restrict the agent's files by landlock: {error}"))
        .hint("Use a kernel with landlock (5.13 or newer), or take the rules out.")
}
