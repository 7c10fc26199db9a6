//! The file: where it may lie, who may read it, what lies beside it. Nothing here knows what is in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bell_store::{Error, Kind, Result, mount};
use rustix::fs::Access as Wanted;

use crate::identity::{FileId, other_name};

/// A file that exists, on a file system of this machine.
pub(crate) struct Place {
    /// Free of links, so that every process finds the same files beside it.
    pub(crate) file: PathBuf,
    /// As it was named, if a link or a relative path led there.
    pub(crate) named: Option<PathBuf>,
    /// The file, before it was opened.
    pub(crate) id: FileId,
    pub(crate) access: Access,
}

/// What this process may do with the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Read and write it, and create files beside it.
    Full,
    /// Read it.
    ReadOnly,
}

impl Place {
    /// Finds the file at `path`, or creates an empty one.
    ///
    /// A file that exists is never opened here: closing it again would drop the locks that SQLite
    /// holds on it elsewhere in this process.
    pub(crate) fn find(path: &Path) -> Result<Self> {
        let file = existing(path).map_err(|error| refused(path, error))?;
        let seen = fs::metadata(&file).map_err(|error| refused(path, error))?;
        if !seen.is_file() {
            return Err(Error::new(
                Kind::Invalid,
                format!("open the store {}: it is not a file", path.display()),
            )
            .hint("Name a file, for example bell.db in that folder."));
        }
        let network = mount::network(&file).map_err(|error| refused(path, error))?;
        if let Some(kind) = network {
            let message =
                format!("open the store {}: it is on a network file system ({kind})", path.display());
            return Err(Error::new(Kind::Unsupported, message).hint(
                "Use a file: store there, or a store with a server; SQLite needs a disk of this machine.",
            ));
        }
        let access = access(&file);
        let named = other_name(path, &file).map_err(|error| refused(path, error))?;
        Ok(Self { file, named, id: FileId::of(&seen), access })
    }

    /// The folder of bells and presence files.
    pub(crate) fn bell(&self) -> PathBuf {
        self.beside("-bell")
    }

    /// SQLite's log.
    pub(crate) fn wal(&self) -> PathBuf {
        self.beside("-wal")
    }

    /// The index of SQLite's log.
    pub(crate) fn index(&self) -> PathBuf {
        self.beside("-shm")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.file.clone().into_os_string();
        path.push(suffix);
        path.into()
    }
}

fn existing(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path)?;
            fs::canonicalize(path)
        }
        found => found,
    }
}

fn create(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let missing = folder.ancestors().take_while(|folder| !folder.exists()).count();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        // Another process was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => drop(created?),
    }
    // A file whose name is not on disk is gone after a power cut, with all that was committed to it.
    for folder in folder.ancestors().take(missing + 1).filter(|folder| *folder != Path::new("")) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn access(file: &Path) -> Access {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let may_write = |path: &Path| rustix::fs::access(path, Wanted::WRITE_OK).is_ok();
    if may_write(file) && may_write(folder) { Access::Full } else { Access::ReadOnly }
}

fn refused(path: &Path, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "Run as the user who owns it, or give this user access.",
        io::ErrorKind::ReadOnlyFilesystem => "Name a path on a file system that can be written.",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "Free some space and try again.",
        io::ErrorKind::NotADirectory => "A part of the path is a file; name a path in a folder.",
        _ => "Check the path.",
    };
    Error::new(Kind::of_io(&error), format!("open the store {}", path.display())).hint(hint).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_missing_file_and_its_folders_are_created_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/bell.db");
        let place = Place::find(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&place.file), 0o600);
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        assert_eq!(mode(&folder.path().join("a/b")), 0o700);
        assert_eq!(place.access, Access::Full);
    }

    #[test]
    fn two_ways_to_one_file_are_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let real = Place::find(&folder.path().join("bell.db")).unwrap();
        symlink(&real.file, folder.path().join("link.db")).unwrap();
        let linked = Place::find(&folder.path().join("link.db")).unwrap();
        assert_eq!(linked.bell(), real.bell());
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Place::find(folder.path()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.to_string().ends_with("it is not a file"), "{error}");
        assert!(!error.advice().is_empty());
    }

    #[test]
    fn a_path_through_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let error = Place::find(&folder.path().join("file/bell.db")).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.advice().starts_with("A part of the path is a file"), "{}", error.advice());
    }
}
