//! The file system that a store lies on, and the limits of this machine. Read, never changed.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use bell_store::Info;
use bell_store::mount::Mount;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

/// This machine, as far as it matters to a store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Machine {
    /// Files that this process may have open (`ulimit -n`); `None`: without limit, or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Users of file events that one user may have (`fs.inotify.max_user_instances`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inotify_instances: Option<u64>,
    /// Files that one user may watch (`fs.inotify.max_user_watches`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inotify_watches: Option<u64>,
    /// Where the store lies, if it lies in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
}

/// The file system that a store lies on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Room {
    /// As in `mount -t`.
    pub file_system: String,
    /// Where it is mounted.
    pub mounted_on: String,
    /// How it is mounted.
    pub options: Vec<String>,
    /// Bytes that are free for this user.
    pub free_bytes: u64,
}

/// Looks at the machine for a store.
pub(super) fn machine(info: &Info) -> Machine {
    let lies_in_files = matches!(info.scheme, "sqlite" | "file");
    Machine {
        open_files: getrlimit(Resource::Nofile).current,
        inotify_instances: setting("max_user_instances"),
        inotify_watches: setting("max_user_watches"),
        room: lies_in_files.then(|| room(Path::new(&info.location))).flatten(),
    }
}

fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse().ok()
}

fn room(path: &Path) -> Option<Room> {
    let mount = Mount::of(File::open(path).ok()?.as_fd()).ok()?;
    let figures = rustix::fs::statvfs(path).ok()?;
    let mut options: Vec<String> = Vec::new();
    for option in mount.options {
        // The mount and the file system have some in common.
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Room {
        file_system: mount.fs_type,
        mounted_on: mount.point,
        options,
        free_bytes: figures.f_bavail.saturating_mul(figures.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_a_file_system_with_some_room() {
        let folder = tempfile::tempdir().unwrap();
        let room = room(folder.path()).unwrap();
        assert!(!room.file_system.is_empty() && room.free_bytes > 0, "{room:?}");
        assert!(folder.path().canonicalize().unwrap().starts_with(&room.mounted_on), "{room:?}");
    }

    #[test]
    fn the_kernel_says_how_many_may_watch_files() {
        assert!(setting("max_user_instances").is_some());
    }
}
