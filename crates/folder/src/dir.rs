//! An open folder, and what is in it, without being led elsewhere.
//!
//! Everything is reached below a descriptor, by one name at a time, and no link is followed: whoever puts a
//! link in the place of a folder or file gets an error, not our writes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW};

use crate::error::{Error, Kind, Result, errno};
use crate::files::{At, Files, Onto, What};

/// An open folder.
#[derive(Clone, Debug)]
pub(crate) struct Dir {
    fd: Arc<OwnedFd>,
    path: PathBuf,
    files: Arc<dyn Files>,
}

/// What a look at a name showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: FileType,
    /// Which file system and which file on it.
    pub(crate) id: FileId,
    pub(crate) links: u32,
    pub(crate) size: u64,
    /// When its content changed, by the file server's clock.
    pub(crate) modified: Duration,
    /// When anything about it changed, its name included, by the same clock.
    pub(crate) changed: Duration,
}

/// A file, whatever its name is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId {
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

/// A name in a folder, with its type where the file system tells.
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
}

impl Dir {
    /// Opens a folder by its path. The folder itself may not be a link.
    pub(crate) fn open(path: &Path, files: Arc<dyn Files>) -> Result<Self> {
        let fd = rustix::fs::openat(CWD, path, FOLDER, Mode::empty())
            .map_err(|error| not_a_folder(path, error.into()))?;
        Ok(Self { fd: Arc::new(fd), path: path.to_path_buf(), files })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// A folder in it, if there is one.
    pub(crate) fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let fd = rustix::fs::openat(&*self.fd, name, FOLDER, Mode::empty())?;
        Ok(Self { fd: Arc::new(fd), path: self.path.join(name), files: Arc::clone(&self.files) })
    }

    /// A folder in it, made if it is not there.
    pub(crate) fn ensure(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        match self.files.make_folder(self.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.folder(name),
        }
    }

    /// Opens a plain file for reading.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.plain(name.as_ref(), OFlags::RDONLY)
    }

    /// Opens a plain file that is there, for reading and writing: over NFS only that can be locked.
    pub(crate) fn edit(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.plain(name.as_ref(), OFlags::RDWR)
    }

    /// Opens a plain file for reading and writing, made if it is not there.
    pub(crate) fn keep(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = name.as_ref();
        match self.plain(name, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match self.files.create(self.at(name)) {
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.plain(name, OFlags::RDWR),
                created => created,
            },
            opened => opened,
        }
    }

    fn plain(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        // Not blocking: opening a pipe that somebody put there would wait for ever.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::openat(&*self.fd, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(rustix::io::Errno::LOOP.into()) }
    }

    /// Looks at a name afresh, past what this machine remembers of it.
    pub(crate) fn look(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Seen>> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        match rustix::fs::statx(&*self.fd, name.as_ref(), flags, StatxFlags::BASIC_STATS) {
            Ok(seen) => Ok(Some(Seen::of(&seen))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at the folder itself afresh.
    pub(crate) fn look_at_self(&self) -> io::Result<Seen> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        Ok(Seen::of(&rustix::fs::statx(&*self.fd, "", flags, StatxFlags::BASIC_STATS)?))
    }

    /// Has the file server stamp the folder with its time, and says which it was.
    ///
    /// A folder, because NFS servers may leave the stamps of a file to the one client that writes it.
    pub(crate) fn touch(&self) -> io::Result<Duration> {
        rustix::fs::futimens(&*self.fd, &NOW)?;
        Ok(self.look_at_self()?.modified)
    }

    /// Has the file server stamp what has this name by now.
    pub(crate) fn touch_name(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::utimensat(&*self.fd, name.as_ref(), &NOW, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether the folder was removed, here or on another machine; only an empty one can be.
    pub(crate) fn is_gone(&self) -> bool {
        match self.look_at_self() {
            Ok(seen) => seen.links == 0,
            Err(error) => errno(&error) == Some(rustix::io::Errno::STALE),
        }
    }

    /// What is in it, in no order.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&*self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                entries.push(Entry { name: OsStr::from_bytes(name).to_owned(), kind: entry.file_type() });
            }
        }
        Ok(entries)
    }

    /// Moves a name from this folder into another.
    pub(crate) fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        new: impl AsRef<OsStr>,
        onto: Onto,
    ) -> io::Result<()> {
        self.files.rename(self.at(name.as_ref()), to.at(new.as_ref()), onto)
    }

    /// Makes a file that was not there, for writing.
    pub(crate) fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.files.create(self.at(name.as_ref()))
    }

    /// Removes a file or link. It may be gone already.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        gone_is_fine(self.files.remove(self.at(name.as_ref()), What::File))
    }

    /// Removes an empty folder. It may be gone already.
    pub(crate) fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        gone_is_fine(self.files.remove(self.at(name.as_ref()), What::Folder))
    }

    /// Makes names that came or went durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.files.sync(self.fd.as_fd())
    }

    pub(crate) fn at<'a>(&'a self, name: &'a OsStr) -> At<'a> {
        At { folder: self.fd.as_fd(), name }
    }

    /// An error about a name in it.
    pub(crate) fn fault<N: AsRef<OsStr>>(&self, what: &str, name: N) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::io(what, &self.path.join(name.as_ref()), error)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Seen {
    fn of(seen: &rustix::fs::Statx) -> Self {
        let time = |stamp: rustix::fs::StatxTimestamp| {
            Duration::new(u64::try_from(stamp.tv_sec).unwrap_or(0), stamp.tv_nsec)
        };
        Self {
            kind: FileType::from_raw_mode(seen.stx_mode.into()),
            id: FileId { device: (seen.stx_dev_major, seen.stx_dev_minor), inode: seen.stx_ino },
            links: seen.stx_nlink,
            size: seen.stx_size,
            modified: time(seen.stx_mtime),
            changed: time(seen.stx_ctime),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }
}

const NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn gone_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn not_a_folder(path: &Path, error: io::Error) -> Error {
    match errno(&error) {
        Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            let what = format!("use {}: it is a link, or not a folder", path.display());
            Error::new(Kind::Corrupt, what).hint("Name the folder that the link leads to.")
        }
        _ => Error::io("open the folder", path, error),
    }
}
