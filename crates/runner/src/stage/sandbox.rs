//! Which files the agent can reach, held by the kernel (landlock).

use std::fmt::Display;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::error::{Error, Kind, Result};
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
    "/sys/devices",
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
    // Rights on folders mean nothing for a file, and the kernel refuses them.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI_WANTED) };
    set.add_rule(PathBeneath::new(opened, access)).map_err(|error| failed(&error))
}

fn unsupported(error: impl Display) -> Error {
    Error::new(Kind::Unsupported, format!("restrict the agent's files by landlock: {error}"))
        .hint("Use a kernel with landlock (5.13 or newer), or take the rules out.")
}
