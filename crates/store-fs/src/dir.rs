//! The folder, and opening what is in it without being led elsewhere.
//!
//! Everything is opened below a descriptor of the folder, follows no link, waits for no pipe, and is
//! used only if it is a plain file with one name that belongs to us or to root. Whoever can put a link or a pipe in
//! the place of a file gets an error, not our writes.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use bell_store::{Error, Kind, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::fault;

/// The file that marks the folder, is locked, and keeps the head.
pub const MARKER: &str = "bell-store";

/// An open folder.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// What to do with a file that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// What is in it stays.
    Keep,
    /// What is in it is dropped.
    Empty,
}

impl Dir {
    /// Opens the folder of a store; created, for us alone, if there is nothing at the path.
    ///
    /// # Errors
    /// If it can't be created or opened, is not ours, or has other things in it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            create(path)
                .map_err(|error| fault::of_io(error, &format!("create the folder {}", path.display())))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| not_a_folder(path, error.into()))?;
        let path = std::path::absolute(path)
            .map_err(|error| fault::of_io(error, &format!("find the folder {}", path.display())))?;
        let dir = Self { fd, path };
        dir.check_contents()?;
        dir.check_owner()?;
        Ok(dir)
    }

    /// The path that it was opened by.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in it for reading and writing, created if it is not there.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if something else stands in its place, or those of opening it.
    pub(crate) fn file(&self, name: &str, opening: Opening) -> Result<File> {
        let open = || -> io::Result<Option<File>> {
            let Some(file) = self.plain_file(name, OFlags::CREATE)? else { return Ok(None) };
            if opening == Opening::Empty {
                // After the checks, so that nobody else's file is emptied.
                file.set_len(0)?;
            }
            Ok(Some(file))
        };
        open().map_err(|error| self.not_opened(name, error))?.ok_or_else(|| self.planted(name))
    }

    /// Opens a file in it for reading and writing, if it is there.
    ///
    /// # Errors
    /// As [`Dir::file`].
    pub(crate) fn find(&self, name: &str) -> Result<Option<File>> {
        match self.plain_file(name, OFlags::empty()) {
            Ok(Some(file)) => Ok(Some(file)),
            Ok(None) => Err(self.planted(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.not_opened(name, error)),
        }
    }

    /// `None`: what is there is not to be trusted.
    fn plain_file(&self, name: &str, create: OFlags) -> io::Result<Option<File>> {
        // Not blocking: opening a pipe that somebody put there would wait for ever.
        let flags =
            OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | create;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?);
        let seen = file.metadata()?;
        let is_plain = seen.is_file() && seen.nlink() == 1 && is_trusted(seen.uid());
        Ok(is_plain.then_some(file))
    }

    /// Opens a folder in it, created if it is not there.
    ///
    /// # Errors
    /// If it can't be created, or something else stands in its place.
    pub(crate) fn folder(&self, name: &str) -> Result<OwnedFd> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(self.not_opened(name, error.into())),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::empty())
            .map_err(|error| self.not_opened(name, error.into()))
    }

    /// Whether the path of the folder still leads to it. A folder that was moved away is one that others no longer find.
    fn is_in_place(&self) -> bool {
        let (Ok(open), Ok(named)) = (rustix::fs::fstat(&self.fd), rustix::fs::stat(&self.path)) else {
            return false;
        };
        (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino)
    }

    /// Whether an open file is still the one that its name leads to, and has no other name, in the folder that the path
    /// leads to.
    pub(crate) fn leads_to(&self, name: &str, file: &File) -> bool {
        if !self.is_in_place() {
            return false;
        }
        let (Ok(open), Ok(named)) =
            (file.metadata(), rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))
        else {
            return false;
        };
        // The widths of the fields differ between machines.
        let named = (u128::from(named.st_dev), u128::from(named.st_ino));
        open.nlink() == 1 && (u128::from(open.dev()), u128::from(open.ino())) == named
    }

    /// The names of what is in it.
    ///
    /// # Errors
    /// Those of reading the folder.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = rustix::fs::Dir::read_from(&self.fd)?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Removes a file. It may be gone already.
    ///
    /// # Errors
    /// Those of removing it.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes names that were created or removed durable.
    ///
    /// # Errors
    /// Those of syncing.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    fn check_contents(&self) -> Result<()> {
        let names = self.names().map_err(|error| self.not_opened(".", error))?;
        // The marker is the first thing created, so that a folder in the making is never taken for foreign.
        if names.is_empty() || names.iter().any(|name| name == MARKER) {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::new(
            Kind::Unsupported,
            format!("use {path}: the folder is not empty and is not a Bellwether store"),
        )
        .hint(format!("Name an empty or a new folder; a store is known by its file {MARKER}.")))
    }

    fn check_owner(&self) -> Result<()> {
        let path = self.path.display();
        let seen = rustix::fs::fstat(&self.fd).map_err(|error| self.not_opened(".", error.into()))?;
        if !is_trusted(seen.st_uid) {
            let message = format!("use {path}: the folder belongs to user {}", seen.st_uid);
            return Err(Error::new(Kind::Unauthorized, message)
                .hint("Run as that user, or name a folder of your own; root may be mapped to another user over NFS."));
        }
        if Mode::from_raw_mode(seen.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
            return Err(Error::new(
                Kind::Unauthorized,
                format!("use {path}: other users may write to the folder"),
            )
            .hint(format!("Run chmod go-w {path}.")));
        }
        Ok(())
    }

    fn not_opened(&self, name: &str, error: io::Error) -> Error {
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO | rustix::io::Errno::ISDIR) => {
                self.planted(name)
            }
            Some(rustix::io::Errno::NOTDIR) => self.planted(name),
            _ => fault::of_io(error, &format!("open {}", self.path.join(name).display())),
        }
    }

    fn planted(&self, name: &str) -> Error {
        let path = self.path.join(name);
        let message = format!("open {}: it is not a plain file of our own with one name", path.display());
        Error::new(Kind::Corrupt, message)
            .hint("Find out who put it there, then remove it; a store can't be shared through links.")
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn create(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).create(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        // Created by us or by another process just now: either way its name must last.
        _ => File::open(parent)?.sync_all(),
    }
}

fn is_trusted(owner: u32) -> bool {
    owner == rustix::process::geteuid().as_raw() || owner == 0
}

fn not_a_folder(path: &Path, error: io::Error) -> Error {
    let what = format!("open the folder {}", path.display());
    if std::fs::symlink_metadata(path).is_ok_and(|seen| seen.is_symlink()) {
        return Error::new(Kind::Unsupported, format!("{what}: it is a symbolic link"))
            .hint("Name the folder that the link leads to.");
    }
    fault::of_io(error, &what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folder() -> (tempfile::TempDir, PathBuf, Dir) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("deep/store");
        let dir = Dir::open(&path).unwrap();
        (temp, path, dir)
    }

    #[test]
    fn a_new_folder_is_for_us_alone() {
        let (_temp, path, dir) = folder();
        dir.file("f", Opening::Keep).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("f"))), (0o700, 0o600));
    }

    #[test]
    fn what_is_planted_in_the_place_of_a_file_is_refused_and_untouched() {
        let (temp, path, dir) = folder();
        let target = temp.path().join("target");
        fs::write(&target, "precious").unwrap();
        symlink(&target, path.join("link")).unwrap();
        fs::hard_link(&target, path.join("second-name")).unwrap();
        fs::create_dir(path.join("folder")).unwrap();
        rustix::fs::mknodat(&dir.fd, "pipe", rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        for name in ["link", "second-name", "folder", "pipe", "socket"] {
            assert_eq!(dir.find(name).unwrap_err().kind(), Kind::Corrupt, "{name}");
            for opening in [Opening::Keep, Opening::Empty] {
                let error = dir.file(name, opening).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{name} {opening:?}: {error}");
            }
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_refused() {
        let (temp, path, dir) = folder();
        symlink(temp.path(), path.join("link")).unwrap();
        assert_eq!(dir.folder("link").unwrap_err().kind(), Kind::Corrupt);
        let to_store = temp.path().join("to-store");
        symlink(&path, &to_store).unwrap();
        let error = Dir::open(&to_store).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.advice().contains("leads to"));
    }

    #[test]
    fn a_folder_with_other_things_in_it_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("thesis.txt"), "").unwrap();
        let error = Dir::open(temp.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("not empty and is not a Bellwether store"), "{error}");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing was added");
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_refused() {
        let temp = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Dir::open(temp.path()).unwrap_err().kind(), Kind::Invalid);
        assert!(Dir::open(&temp.path().join("below")).is_err());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let error = Dir::open(temp.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unauthorized);
        assert!(error.advice().contains("chmod go-w"));
    }

    #[test]
    fn a_replaced_or_doubly_named_file_is_noticed() {
        let (_temp, path, dir) = folder();
        let file = dir.file("f", Opening::Keep).unwrap();
        assert!(dir.leads_to("f", &file));
        fs::hard_link(path.join("f"), path.join("g")).unwrap();
        assert!(!dir.leads_to("f", &file));
        fs::remove_file(path.join("g")).unwrap();
        fs::remove_file(path.join("f")).unwrap();
        assert!(!dir.leads_to("f", &file));
        dir.file("f", Opening::Keep).unwrap();
        assert!(!dir.leads_to("f", &file));
    }

    #[test]
    fn a_folder_that_was_moved_away_or_replaced_is_noticed() {
        let (temp, path, dir) = folder();
        let file = dir.file("f", Opening::Keep).unwrap();
        fs::rename(&path, temp.path().join("away")).unwrap();
        assert!(!dir.leads_to("f", &file));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("f"), "").unwrap();
        assert!(!dir.leads_to("f", &file));
    }
}
