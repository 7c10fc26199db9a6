//! Presence by kernel locks: one file for each session, locked for as long as its process lives.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::{Attendance, Presence};
use crate::error::{Error, Kind, Result};

/// Characters in a session's name at the most: a UUID has 36, and a file name may have 255.
const MAX_SESSION_CHARS: usize = 64;

/// Presence of the processes that share a folder on this machine.
///
/// `live/<session>` is created, locked, and then given its one byte; the file of a session whose process
/// was killed half-way through is empty and says nothing. Files stay until [`Presence::forget`], so that a
/// session that is gone stays gone.
pub struct KernelLocks {
    path: PathBuf,
    /// The folder itself: what its path leads to may change, the folder we looked at does not.
    live: OwnedFd,
}

/// What a look at a session's file showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// Its process holds the lock.
    Present,
    /// Its process let go of the lock.
    Gone,
    /// No file, or nothing that can be trusted.
    Unknown,
}

impl KernelLocks {
    /// Uses `folder/live`, created for this user alone if it is missing.
    ///
    /// # Errors
    /// If the folder can't be created or opened.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("live");
        let opened = DirBuilder::new().recursive(true).mode(0o700).create(&path).and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(rustix::fs::open(&path, flags, Mode::empty())?)
        });
        let live = opened.map_err(|error| unusable(&path, error))?;
        Ok(Self { path, live })
    }

    /// The folder in which sessions have their files.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Every session that has a file.
    pub(crate) fn sessions(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| is_session(name)).collect())
    }

    /// Looks whether a session's process lives.
    pub(crate) fn look(&self, session: &str) -> Sight {
        if !is_session(session) {
            return Sight::Unknown;
        }
        self.probe(session).unwrap_or(Sight::Unknown)
    }

    fn probe(&self, session: &str) -> io::Result<Sight> {
        // Not blocking: opening a pipe that somebody put there would wait for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.live, session, flags, Mode::empty())?);
        // Shared, so that two who look at once do not take each other for the holder.
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Sight::Present),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let seen = file.metadata()?;
        let is_ours = seen.is_file() && seen.uid() == rustix::process::geteuid().as_raw();
        // Empty: created, but its process never came to hold the lock.
        Ok(if is_ours && seen.len() > 0 { Sight::Gone } else { Sight::Unknown })
    }

    fn hold(&self, session: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.live, session, flags, Mode::RUSR | Mode::WUSR)?);
        // Waits for nobody but those who look just now, and they let go at once.
        let held = file.lock().and_then(|()| file.set_len(1));
        if held.is_err() {
            self.forget(session);
        }
        held.map(|()| file)
    }
}

impl Presence for KernelLocks {
    fn attend(&self, session: &str) -> Result<Attendance> {
        if !is_session(session) {
            let message = format!("show the session {session:?} as present: its name is not a plain one");
            return Err(
                Error::new(Kind::Invalid, message).hint("Use letters, digits and dashes, 64 at the most.")
            );
        }
        self.hold(session).map(Attendance::new).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let message = format!("show the session {session} as present: it attended before");
                Error::new(Kind::Invalid, message).hint("Start a new session: one that is gone stays gone.")
            }
            _ => Error::new(Kind::of_io(&error), format!("show the session {session} as present"))
                .hint(format!("Look at the folder {}.", self.path.display()))
                .because(error),
        })
    }

    fn is_gone(&self, session: &str) -> bool {
        self.look(session) == Sight::Gone
    }

    fn forget(&self, session: &str) {
        if is_session(session) {
            // What can't be removed stays as it is: gone, or unknown.
            let _ = rustix::fs::unlinkat(&self.live, session, AtFlags::empty());
        }
    }
}

/// Why a folder that processes share can't be used.
pub(crate) fn unusable(folder: &Path, error: io::Error) -> Error {
    let kind = Kind::of_io(&error);
    let hint = match kind {
        Kind::Full => "Free some space on its disk and try again.",
        _ => "Make the folder writable for this user, or remove it: it is created anew.",
    };
    Error::new(kind, format!("use the folder {}", folder.display())).hint(hint).because(error)
}

/// Whether the name can be a file name and nothing else.
fn is_session(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MAX_SESSION_CHARS).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn locks() -> (tempfile::TempDir, KernelLocks) {
        let folder = tempfile::tempdir().unwrap();
        let locks = KernelLocks::open(folder.path()).unwrap();
        (folder, locks)
    }

    #[test]
    fn a_session_is_gone_once_its_attendance_is_dropped() {
        let (_folder, locks) = locks();
        let attendance = locks.attend("run-1").unwrap();
        assert!(!locks.is_gone("run-1"));
        drop(attendance);
        assert!(locks.is_gone("run-1"));
        assert!(locks.is_gone("run-1"), "looking changes nothing");
    }

    #[test]
    fn a_session_that_never_attended_is_not_known_to_be_gone() {
        let (_folder, locks) = locks();
        assert!(!locks.is_gone("run-1"));
    }

    #[test]
    fn a_session_that_is_gone_can_not_attend_again_until_it_is_forgotten() {
        let (_folder, locks) = locks();
        drop(locks.attend("run-1").unwrap());
        let refused = locks.attend("run-1").map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid);
        assert!(locks.is_gone("run-1"));
        locks.forget("run-1");
        assert!(!locks.is_gone("run-1"));
        locks.attend("run-1").unwrap();
    }

    #[test]
    fn a_session_killed_before_it_held_its_lock_is_not_known_to_be_gone() {
        let (folder, locks) = locks();
        fs::write(folder.path().join("live/run-1"), "").unwrap();
        assert!(!locks.is_gone("run-1"));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (folder, locks) = locks();
        fs::write(folder.path().join("outside"), "1").unwrap();
        for name in ["", ".", "..", "../outside", "a/b", "a\0b", "a b", "ü", &"a".repeat(65)] {
            assert_eq!(locks.attend(name).map(|_| ()).unwrap_err().kind(), Kind::Invalid, "{name:?}");
            assert!(!locks.is_gone(name), "{name:?}");
            locks.forget(name);
        }
        assert!(folder.path().join("outside").exists());
    }

    #[test]
    fn what_is_not_a_plain_file_says_nothing() {
        let (folder, locks) = locks();
        let live = folder.path().join("live");
        fs::write(folder.path().join("target"), "1").unwrap();
        std::os::unix::fs::symlink(folder.path().join("target"), live.join("link")).unwrap();
        fs::create_dir(live.join("folder")).unwrap();
        rustix::fs::mknodat(&locks.live, "pipe", rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["link", "folder", "pipe"] {
            assert!(!locks.is_gone(name), "{name}");
            assert!(locks.attend(name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_this_user_can_look_in() {
        let (folder, locks) = locks();
        let _attendance = locks.attend("run-1").unwrap();
        let mode = |path: &str| fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("live"), 0o700);
        assert_eq!(mode("live/run-1"), 0o600);
    }
}
