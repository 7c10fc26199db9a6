//! The mounts that hide from an agent what is not its own. They are in a mount namespace of the run, so nobody else sees
//! them, and they go with its last process.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};

use crate::error::{Error, Kind, Result};
use crate::isolation::{self, Kind as FileKind, Step, View, Views, plan};

/// Covers are empty but for the places of what is restored in them.
const COVER_OPTIONS: &std::ffi::CStr = c"mode=0755,size=256k";

/// In a user namespace all files of root seem to be nobody's, and ssh refuses settings that are nobody's.
const SSH_SETTINGS: &str = "/etc/ssh/ssh_config.d";

/// Moves this process into a mount namespace of its own, as root.
pub(super) fn enter() -> Result<()> {
    separate(CloneFlags::CLONE_NEWNS)
}

/// Moves this process into a mount namespace and a user namespace of its own, in which it is who it was.
pub(super) fn enter_with_user() -> Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // The kernel hides what a process may write about itself after it has changed its user.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(unsupported)?;
    separate(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny").map_err(unsupported)?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).map_err(unsupported)?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).map_err(unsupported)?;
    cover(Path::new(SSH_SETTINGS))
}

fn cover(path: &Path) -> Result<()> {
    if path.is_dir() {
        carry_out(&Step::Cover(path.to_owned(), FileKind::Folder), &HashMap::new())
    } else {
        Ok(())
    }
}

/// Nothing that is mounted from here on is seen by others, nor the other way round.
fn separate(what: CloneFlags) -> Result<()> {
    unshare(what).map_err(|errno| {
        // "No space left" is the word for a limit on namespaces, which is lasting where none is allowed at all.
        let is_lasting = errno == Errno::EUSERS || (errno == Errno::ENOSPC && allows_no_namespace());
        if is_lasting { unsupported(io::Error::from(io::ErrorKind::Unsupported)) } else { unsupported(errno) }
    })?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(unsupported)
}

fn allows_no_namespace() -> bool {
    let is_zero = |kind: &str| {
        let limit = fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces"));
        limit.is_ok_and(|limit| limit.trim() == "0")
    };
    is_zero("user") || is_zero("mnt")
}

/// Makes the mounts for these views. Control groups are read-only to everybody.
pub(super) fn make(views: &Views) -> Result<()> {
    let mut views = views.clone();
    cgroups().into_iter().for_each(|path| views.close(path, View::ReadOnly));
    let steps = plan(&views, FileKind::at);
    let sources = sources(&steps)?;
    steps.iter().try_for_each(|step| carry_out(step, &sources))
}

/// What is to be restored, opened while it can still be reached.
fn sources(steps: &[Step]) -> Result<HashMap<&Path, OwnedFd>> {
    let paths = steps.iter().filter_map(|step| match step {
        Step::Restore(path, _) => Some(path.as_path()),
        Step::Cover(..) | Step::Seal(_) => None,
    });
    let opened = paths.map(|path| {
        let opened = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        opened.map(|opened| (path, opened)).map_err(|error| failed("open", path, error))
    });
    opened.collect()
}

fn carry_out(step: &Step, sources: &HashMap<&Path, OwnedFd>) -> Result<()> {
    match step {
        Step::Cover(path, FileKind::Folder) => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("bell", path, "tmpfs", flags, COVER_OPTIONS).map_err(|error| failed("hide", path, error))
        }
        Step::Cover(path, FileKind::File) => {
            mount_bind_recursive("/dev/null", path).map_err(|error| failed("hide", path, error))
        }
        Step::Restore(path, kind) => {
            let Some(source) = sources.get(path.as_path()) else {
                return Err(failed("show", path, io::ErrorKind::NotFound));
            };
            make_place(path, *kind).map_err(|error| failed("make a place for", path, error))?;
            let source = format!("/proc/self/fd/{}", source.as_raw_fd());
            mount_bind_recursive(source, path).map_err(|error| failed("show", path, error))
        }
        Step::Seal(path) => seal(path).map_err(|error| failed("protect", path, error)),
    }
}

fn make_place(path: &Path, kind: FileKind) -> io::Result<()> {
    match (kind, path.parent()) {
        _ if path.exists() => Ok(()),
        (FileKind::Folder, _) => fs::create_dir_all(path),
        (FileKind::File, Some(parent)) => {
            fs::create_dir_all(parent).and_then(|()| File::create(path).map(drop))
        }
        (FileKind::File, None) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// What already holds for a mount has to be said again: in a user namespace the kernel lets nobody take it back.
fn seal(path: &Path) -> rustix::io::Result<()> {
    let now = statvfs(path)?.f_flag;
    let known = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = known.into_iter().filter(|(flag, _)| now.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, flag| flags | flag);
    mount_remount(path, flags, c"")
}

/// Where control groups can be written: a process that may could leave the one of its run.
pub(super) fn cgroups() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    cgroups_in(&mounts)
}

fn cgroups_in(mounts: &str) -> Vec<PathBuf> {
    let unified = |line: &&str| line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("cgroup2 "));
    mounts.lines().filter(unified).filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}

fn failed(what: &str, path: &Path, error: impl Into<io::Error>) -> Error {
    Error::io(format!("{what} {} for a run's isolation", path.display()), error.into())
}

/// Too many namespaces, or no memory for one, passes; everything else does not.
fn unsupported(error: impl Into<io::Error>) -> Error {
    let error = error.into();
    let kind = Some(Kind::of_io(&error)).filter(|kind| kind.is_transient()).unwrap_or(Kind::Unsupported);
    Error::new(kind, format!("isolate the run by mounts: {error}")).hint(isolation::HINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_where_control_groups_are_mounted_is_found() {
        let mounts = "24 1 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      30 24 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      31 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroups_in(mounts), [Path::new("/sys/fs/cgroup/unified")]);
    }
}
