//! Guarded writes to a file: published whole, or refused.
//!
//! Beside `name` lies `.name.fence`: a lock file that is never removed, and that remembers the highest
//! fence. Under its lock the fence is raised first and the content replaced second, both durably, so a
//! crash in between leaves the old content with the new fence: the write may be repeated, and no older
//! one gets through. The lock is waited for within a limit: a writer that is stopped holds up others, but not for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bell_core::lock::Fence;
use bell_folder::lock::{Locked, lock};
use bell_folder::publish::FENCE_PATIENCE;
use bell_folder::regular;

use super::Stale;

/// Bytes read of a file of fences: a fence is a line of 21, and anything longer is damaged.
const FENCE_BYTES_MAX: u64 = 64;

/// Why a guarded write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The fence is too old. Nothing was written.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The path can't be guarded.
    #[error("{}: {reason}", path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// Another writer held the lock of the file of fences for as long as it was waited for. The file was not touched.
    #[error(
        "could not write {}: another process has kept {} locked for {} s",
        path.display(), sidecar.display(), waited.as_secs()
    )]
    TimedOut {
        /// What was to be written.
        path: PathBuf,
        /// The file of fences beside it, which the other one has locked.
        sidecar: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The file system refused. The file has its old content.
    #[error("could not write {}: {source}", path.display())]
    Io {
        /// What was being written.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Replaces the content of `path` if no later fence has been seen there.
///
/// Readers see the old content or the new, whole. Durable before it returns. Another writer is waited for, no longer than
/// [`FENCE_PATIENCE`].
///
/// # Errors
/// [`GuardError::Stale`] if a later holder has written, [`GuardError::TimedOut`] if another writer does not end; then, as after any other error, the file is as it
/// was.
pub fn write(path: &Path, fence: Fence, content: &[u8]) -> Result<(), GuardError> {
    let place = Place::of(path)?;
    let mut guard = place.lock(FENCE_PATIENCE)?;
    raise(&mut guard, fence).map_err(|refusal| refusal.at(&place.sidecar))?;
    place.replace(content).map_err(|source| GuardError::Io { path: path.to_path_buf(), source })
}

/// The highest fence that a path has seen.
///
/// # Errors
/// If it can't be read.
pub fn highest(path: &Path) -> Result<Option<Fence>, GuardError> {
    let place = Place::of(path)?;
    match regular::open(&place.sidecar, OpenOptions::new().read(true)) {
        Ok(mut guard) => read_fence(&mut guard).map_err(|source| place.sidecar_error(source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(place.sidecar_error(source)),
    }
}

/// Where a guarded file lives, with its companions.
struct Place {
    folder: PathBuf,
    path: PathBuf,
    sidecar: PathBuf,
    draft: PathBuf,
}

impl Place {
    fn of(path: &Path) -> Result<Self, GuardError> {
        let refused = |reason| GuardError::Path { path: path.to_path_buf(), reason };
        let name = path.file_name().ok_or_else(|| refused("is not the path of a file"))?;
        if path.is_dir() {
            return Err(refused("is a folder: name a file in it"));
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_path_buf();
        let beside = |ending: &str| {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(ending);
            folder.join(hidden)
        };
        Ok(Self { sidecar: beside(".fence"), draft: beside(".draft"), path: path.to_path_buf(), folder })
    }

    fn lock(&self, patience: Duration) -> Result<File, GuardError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = regular::open(&self.sidecar, &options).map_err(|source| self.sidecar_error(source))?;
        match lock(&file, patience).map_err(|source| self.sidecar_error(source))? {
            Locked::Yes => Ok(file),
            Locked::Busy => Err(GuardError::TimedOut {
                path: self.path.clone(),
                sidecar: self.sidecar.clone(),
                waited: patience,
            }),
            Locked::Unsupported => {
                let source = io::Error::new(io::ErrorKind::Unsupported, "the file system has no locks");
                Err(self.sidecar_error(source))
            }
        }
    }

    fn replace(&self, content: &[u8]) -> io::Result<()> {
        // Only the holder of the lock writes the draft; one that a crash left is overwritten.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        let mut draft = regular::open(&self.draft, &options)?;
        if let Ok(current) = std::fs::metadata(&self.path) {
            draft.set_permissions(current.permissions())?;
        }
        draft.write_all(content)?;
        draft.sync_all()?;
        std::fs::rename(&self.draft, &self.path)?;
        File::open(&self.folder)?.sync_all()
    }

    fn sidecar_error(&self, source: io::Error) -> GuardError {
        GuardError::Io { path: self.sidecar.clone(), source }
    }
}

enum Refusal {
    Stale(Stale),
    Io(io::Error),
}

impl Refusal {
    fn at(self, path: &Path) -> GuardError {
        match self {
            Self::Stale(stale) => stale.into(),
            Self::Io(source) => GuardError::Io { path: path.to_path_buf(), source },
        }
    }
}

/// Raises the remembered fence, durably, or refuses.
fn raise(guard: &mut File, fence: Fence) -> Result<(), Refusal> {
    let seen = read_fence(guard).map_err(Refusal::Io)?;
    match seen {
        Some(seen) if seen > fence => Err(Refusal::Stale(Stale::refuse(fence, seen))),
        Some(seen) if seen == fence => Ok(()),
        _ => store(guard, fence).map_err(Refusal::Io),
    }
}

/// The fence is one line of fixed width, written in one piece: disks replace a sector whole or not at all.
fn store(guard: &mut File, fence: Fence) -> io::Result<()> {
    guard.write_all_at(format!("{fence:020}\n").as_bytes(), 0)?;
    guard.sync_all()
}

fn read_fence(guard: &mut File) -> io::Result<Option<Fence>> {
    let mut text = String::new();
    guard.take(FENCE_BYTES_MAX).read_to_string(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let fence = text.strip_suffix('\n').and_then(|digits| digits.parse().ok());
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file of fences is damaged");
    fence.map(|fence| Some(Fence(fence))).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_write_with_the_same_or_a_higher_fence_replaces_the_content() {
        let folder = folder();
        let path = folder.path().join("report.txt");
        for (fence, text) in [(5, "one"), (5, "two"), (u64::MAX, "three")] {
            write(&path, Fence(fence), text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(highest(&path).unwrap(), Some(Fence(u64::MAX)));
    }

    #[test]
    fn a_write_with_a_lower_fence_is_refused_and_leaves_the_content() {
        let folder = folder();
        let path = folder.path().join("report.txt");
        write(&path, Fence(12), b"successor").unwrap();
        let refused = write(&path, Fence(3), b"stale").unwrap_err();
        assert!(matches!(refused, GuardError::Stale(Stale { given: Fence(3), seen: Fence(12) })));
        assert_eq!(std::fs::read(&path).unwrap(), b"successor");
    }

    #[test]
    fn a_writer_that_does_not_end_is_not_waited_for_for_ever_and_keeps_its_file() {
        let folder = folder();
        let path = folder.path().join("report.txt");
        write(&path, Fence(1), b"before").unwrap();
        let place = Place::of(&path).unwrap();
        let stopped = place.lock(Duration::ZERO).unwrap();
        let refused = place.lock(Duration::from_millis(1)).unwrap_err();
        assert!(
            matches!(&refused, GuardError::TimedOut { sidecar, .. } if *sidecar == place.sidecar),
            "{refused}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        drop(stopped);
        write(&path, Fence(2), b"after").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
    }

    #[test]
    fn a_draft_that_a_crash_left_does_no_harm() {
        let folder = folder();
        let path = folder.path().join("report.txt");
        std::fs::write(folder.path().join(".report.txt.draft"), "half a re").unwrap();
        write(&path, Fence(1), b"whole").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_damaged_file_of_fences_is_refused_rather_than_taken_for_none() {
        let folder = folder();
        let path = folder.path().join("report.txt");
        std::fs::write(folder.path().join(".report.txt.fence"), "garbage").unwrap();
        assert!(matches!(write(&path, Fence(1), b"x"), Err(GuardError::Io { .. })));
        assert!(!path.exists());
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let folder = folder();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        for companion in [".report.txt.fence", ".report.txt.draft"] {
            let link = folder.path().join(companion);
            std::os::unix::fs::symlink(&victim, &link).unwrap();
            assert!(write(&folder.path().join("report.txt"), Fence(1), b"x").is_err());
            std::fs::remove_file(link).unwrap();
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_planted_fifo_is_refused_at_once() {
        let folder = folder();
        let path = folder.path().join("report.txt");
        for companion in [".report.txt.fence", ".report.txt.draft"] {
            let fifo = folder.path().join(companion);
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            assert!(matches!(write(&path, Fence(1), b"x"), Err(GuardError::Io { .. })), "{companion}");
            if companion.ends_with(".fence") {
                assert!(highest(&path).is_err());
            }
            std::fs::remove_file(fifo).unwrap();
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_is_not_a_file() {
        let folder = folder();
        assert!(matches!(write(folder.path(), Fence(1), b"x"), Err(GuardError::Path { .. })));
    }
}
