//! Copying and removing trees. No link is followed on either side, and everything written is synced.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, Timespec, Timestamps};

use crate::dir::{Dir, Seen};
use crate::error::{Error, Kind, Result};
use crate::files::Kernel;

/// Folders within folders: each level keeps two descriptors open.
const MAX_DEPTH: usize = 128;

/// What was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl std::ops::AddAssign for Copied {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Copies a file that the caller named; a link there is what the caller means by it.
pub(super) fn named_file(from: &Path, to: &Dir, name: &str) -> Result<Copied> {
    let mut options = File::options();
    // Not blocking: opening a pipe would wait for whoever writes to it.
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let source = options.open(from).map_err(|error| Error::io("read", from, error))?;
    if !source.metadata().map_err(|error| Error::io("read", from, error))?.is_file() {
        return Err(Error::new(Kind::Invalid, format!("publish {}: it is no file", from.display()))
            .hint("List files; a folder is published as a whole."));
    }
    file(&source, to, name).map_err(|error| Error::io("copy", from, error))
}

/// Copies what is in a folder that the caller named into `to`.
pub(super) fn named_folder(from: &Path, to: &Dir) -> Result<Copied> {
    let real = from.canonicalize().map_err(|error| Error::io("read", from, error))?;
    let source = Dir::open(&real, Arc::new(Kernel))?;
    tree(&source, to, 0)
}

fn tree(from: &Dir, to: &Dir, depth: usize) -> Result<Copied> {
    if depth > MAX_DEPTH {
        let what = format!("copy {}: it is more than {MAX_DEPTH} folders deep", from.path().display());
        return Err(Error::new(Kind::Invalid, what).hint("Publish an archive of it instead."));
    }
    let mut copied = Copied::default();
    for entry in from.entries().map_err(from.fault("list", ""))? {
        let name = &entry.name;
        let seen = from.look(name).map_err(from.fault("look at", name))?;
        match seen.map(|seen: Seen| seen.kind) {
            Some(FileType::RegularFile) => {
                let source = from.read(name).map_err(from.fault("read", name))?;
                copied += file(&source, to, name).map_err(from.fault("copy", name))?;
            }
            Some(FileType::Directory) => {
                let inner = from.folder(name).map_err(from.fault("read", name))?;
                let made = to.ensure(name).map_err(to.fault("make the folder", name))?;
                copied += tree(&inner, &made, depth + 1)?;
            }
            Some(FileType::Symlink) => link(from, to, name).map_err(from.fault("copy", name))?,
            // Removed while we looked; and nobody can publish a pipe.
            None => {}
            Some(_) => {
                let what = format!("copy {}: it is no file or folder", from.path().join(name).display());
                return Err(Error::new(Kind::Invalid, what).hint("Take pipes and devices out of the folder."));
            }
        }
    }
    to.sync().map_err(to.fault("sync", ""))?;
    Ok(copied)
}

fn file(source: &File, to: &Dir, name: impl AsRef<std::ffi::OsStr>) -> io::Result<Copied> {
    let seen = source.metadata()?;
    let mut made = to.create(name)?;
    let bytes = io::copy(&mut &*source, &mut made)?;
    made.set_permissions(std::fs::Permissions::from_mode(seen.mode() & 0o777))?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let stamps = Timestamps {
        last_access: time(seen.atime(), seen.atime_nsec() as _),
        last_modification: time(seen.mtime(), seen.mtime_nsec() as _),
    };
    rustix::fs::futimens(&made, &stamps)?;
    to.files().sync(made.as_fd())?;
    Ok(Copied { files: 1, bytes })
}

/// A link is copied as it is; where it leads is up to whoever follows it.
fn link(from: &Dir, to: &Dir, name: &std::ffi::OsStr) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let target = rustix::fs::readlinkat(from.as_fd(), name, Vec::new())?;
    to.files().symlink(std::ffi::OsStr::from_bytes(target.to_bytes()), to.at(name))
}

/// Removes whatever has this name, with all that is in it. Another may be at it too.
pub(super) fn remove(from: &Dir, name: impl AsRef<std::ffi::OsStr>) -> io::Result<()> {
    let name = name.as_ref();
    match from.look(name)? {
        None => Ok(()),
        Some(seen) if seen.is_folder() => match from.folder(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(inner) => {
                inner.entries()?.iter().try_for_each(|entry| remove(&inner, &entry.name))?;
                from.remove_folder(name)
            }
        },
        Some(_) => from.remove(name),
    }
}
