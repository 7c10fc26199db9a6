//! Reading files of a project without leaving it (X5).
//!
//! Every path is opened from the project's own descriptor, and the kernel refuses to resolve it to anything
//! outside: no check that could be outrun by somebody who moves a link. Only regular files are read, without
//! waiting, so that a FIFO can't hold anybody up, and no more of them than allowed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FsWord, Mode, OFlags, ResolveFlags, StatxFlags, fstatfs, openat, openat2,
    statx,
};
use rustix::io::Errno;

/// Entries looked at in one folder: ten times the agents that a project may have.
const ENTRIES_MAX: usize = 100_000;
/// Who but the owner could read a private file.
const OTHERS: u32 = 0o077;

/// The folder of a project, open.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

/// Why a file can't be read. The words read after the file's name.
#[derive(Debug, thiserror::Error)]
pub enum ReadFault {
    /// It is not there.
    #[error("it is not there")]
    Missing,
    /// A link leads out of the project.
    #[error("it leads out of the project")]
    Outside,
    /// It is a folder, a FIFO, a socket or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has more bytes than allowed.
    #[error("it has more than {max} bytes")]
    TooLarge {
        /// How many are allowed.
        max: u64,
    },
    /// Others than its owner may read it.
    #[error("others than its owner may read it (mode {mode:03o})")]
    TooOpen {
        /// Its mode.
        mode: u32,
    },
    /// The system refused.
    #[error("{0}")]
    Io(io::Error),
}

/// What a name in a folder stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A folder, or a link, which may lead to one.
    MaybeFolder,
    /// Anything else.
    Other,
}

impl Folder {
    /// Opens the folder of a project.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), fd })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file of the project.
    pub fn read(&self, path: &str, max: u64) -> Result<Vec<u8>, ReadFault> {
        read_file(self.open_beneath(path, OFlags::RDONLY | OFlags::NONBLOCK)?, max)
    }

    /// Reads a file of the project that only its owner may read.
    pub fn read_private_beneath(&self, path: &str, max: u64) -> Result<Vec<u8>, ReadFault> {
        let file = self.open_beneath(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        refuse_if_open_to_others(&file)?;
        read_file(file, max)
    }

    /// Reads a file anywhere on the machine, relative to the project, that only its owner may read.
    pub fn read_private(&self, path: &str, max: u64) -> Result<Vec<u8>, ReadFault> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, path, flags, Mode::empty()).map_err(fault)?);
        refuse_if_open_to_others(&file)?;
        read_file(file, max)
    }

    /// Whether something of this name is in the project.
    pub fn exists(&self, path: &str) -> Result<(), ReadFault> {
        self.open_beneath(path, OFlags::PATH).map(drop)
    }

    /// Whether a file of the project is there, and whether its owner may execute it.
    pub fn is_executable(&self, path: &str) -> Result<bool, ReadFault> {
        let file = self.open_beneath(path, OFlags::PATH)?;
        let metadata = file.metadata().map_err(ReadFault::Io)?;
        if !metadata.is_file() {
            return Err(ReadFault::NotRegular);
        }
        Ok(metadata.mode() & 0o111 != 0)
    }

    /// What tells one state of a file from another, without reading it; none if it is not there.
    pub(crate) fn fingerprint(&self, path: &str) -> Option<[i64; 6]> {
        let metadata = self.open_beneath(path, OFlags::PATH).ok()?.metadata().ok()?;
        let (ino, size) = (metadata.ino().cast_signed(), metadata.size().cast_signed());
        let mtime = [metadata.mtime(), metadata.mtime_nsec()];
        Some([ino, size, mtime[0], mtime[1], metadata.ctime(), metadata.ctime_nsec()])
    }

    /// The same for several files of a folder, for fewer questions to the system than each by itself.
    pub(crate) fn fingerprints<const N: usize>(
        &self,
        place: &str,
        names: [&str; N],
    ) -> [Option<[i64; 6]>; N] {
        let Ok(folder) = self.open_beneath(place, OFlags::PATH | OFlags::DIRECTORY) else { return [None; N] };
        names.map(|name| {
            // Its fields have the same types whichever way the calls of the system are made.
            let about = statx(&folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).ok()?;
            if FileType::from_raw_mode(about.stx_mode.into()) == FileType::Symlink {
                // Where it leads to counts, and may be outside.
                return self.fingerprint(&format!("{place}/{name}"));
            }
            Some([
                about.stx_ino.cast_signed(),
                about.stx_size.cast_signed(),
                about.stx_mtime.tv_sec,
                about.stx_mtime.tv_nsec.into(),
                about.stx_ctime.tv_sec,
                about.stx_ctime.tv_nsec.into(),
            ])
        })
    }

    /// Which folder this is: another one of the same name has another identity.
    pub(crate) fn identity(&self, path: &str) -> Option<[i64; 2]> {
        let metadata = self.open_beneath(path, OFlags::PATH).ok()?.metadata().ok()?;
        metadata.is_dir().then(|| [metadata.dev().cast_signed(), metadata.ino().cast_signed()])
    }

    /// The kind of file system that it is on.
    pub(crate) fn file_system(&self) -> Option<FsWord> {
        fstatfs(&self.fd).ok().map(|status| status.f_type)
    }

    /// The names in a folder of the project, in order.
    pub fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, ReadFault> {
        let folder = self.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(OwnedFd::from(folder)).map_err(fault)?.take(ENTRIES_MAX) {
            let entry = entry.map_err(fault)?;
            // What is not text can't be an agent's name.
            let Ok(name) = entry.file_name().to_str() else { continue };
            let kind = match entry.file_type() {
                FileType::Directory | FileType::Symlink | FileType::Unknown => Kind::MaybeFolder,
                _ => Kind::Other,
            };
            if name != "." && name != ".." {
                names.push((name.to_owned(), kind));
            }
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<File, ReadFault> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.fd, path, flags, Mode::empty(), resolve) {
            // A kernel or a sandbox without openat2.
            Err(Errno::NOSYS | Errno::PERM) => self.open_without_links(path, flags),
            opened => opened.map(File::from).map_err(fault),
        }
    }

    /// One part after the other, and no link in any place: stricter than needed, and as safe.
    fn open_without_links(&self, path: &str, flags: OFlags) -> Result<File, ReadFault> {
        let mut parts = path.split('/').filter(|part| !matches!(*part, "" | ".")).peekable();
        let mut at = self.fd.try_clone().map_err(ReadFault::Io)?;
        while let Some(part) = parts.next() {
            if part == ".." {
                return Err(ReadFault::Outside);
            }
            let between = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let flags = if parts.peek().is_some() { between } else { flags };
            at = openat(&at, part, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(fault)?;
        }
        if path.is_empty() || path == "." {
            return openat(&self.fd, ".", flags, Mode::empty()).map(File::from).map_err(fault);
        }
        Ok(File::from(at))
    }
}

fn read_file(file: File, max: u64) -> Result<Vec<u8>, ReadFault> {
    let metadata = file.metadata().map_err(ReadFault::Io)?;
    if !metadata.is_file() {
        return Err(ReadFault::NotRegular);
    }
    let mut bytes = Vec::new();
    // One more than allowed shows a file that is too large, also one that grows while it is read.
    file.take(max + 1).read_to_end(&mut bytes).map_err(ReadFault::Io)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
        return Err(ReadFault::TooLarge { max });
    }
    Ok(bytes)
}

fn refuse_if_open_to_others(file: &File) -> Result<(), ReadFault> {
    let mode = file.metadata().map_err(ReadFault::Io)?.mode() & 0o777;
    if mode & OTHERS != 0 { Err(ReadFault::TooOpen { mode }) } else { Ok(()) }
}

fn fault(errno: Errno) -> ReadFault {
    match errno {
        Errno::NOENT | Errno::NOTDIR => ReadFault::Missing,
        Errno::XDEV | Errno::LOOP => ReadFault::Outside,
        // A socket or a FIFO that nobody writes to.
        Errno::NXIO | Errno::ISDIR => ReadFault::NotRegular,
        other => ReadFault::Io(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("in")).unwrap();
        std::fs::write(place.path().join("in/file"), "text").unwrap();
        let folder = Folder::open(&place.path().join("in")).unwrap();
        (place, folder)
    }

    #[test]
    fn no_path_leads_out_whatever_it_looks_like() {
        let (place, folder) = folder();
        std::fs::write(place.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("../secret", place.path().join("in/link")).unwrap();
        std::os::unix::fs::symlink("/etc", place.path().join("in/etc")).unwrap();
        std::os::unix::fs::symlink("loop", place.path().join("in/loop")).unwrap();
        for path in
            ["../secret", "link", "etc/passwd", "/etc/passwd", "a/../../secret", "loop", "./../secret"]
        {
            assert!(folder.read(path, 10).is_err(), "{path}");
            assert!(folder.open_without_links(path, OFlags::RDONLY).is_err(), "{path} without openat2");
        }
        assert!(matches!(folder.read("link", 10), Err(ReadFault::Outside)));
        assert!(folder.read("fi\0le", 10).is_err());
    }

    #[test]
    fn a_link_inside_is_followed_where_the_kernel_helps() {
        let (place, folder) = folder();
        std::os::unix::fs::symlink("file", place.path().join("in/link")).unwrap();
        assert_eq!(folder.read("link", 10).unwrap(), b"text");
        assert_eq!(folder.read("file", 10).unwrap(), b"text");
        let mut text = String::new();
        let mut file = folder.open_without_links("./file", OFlags::RDONLY).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn a_file_may_have_as_many_bytes_as_allowed_and_no_more() {
        let (_place, folder) = folder();
        assert_eq!(folder.read("file", 4).unwrap(), b"text");
        assert!(matches!(folder.read("file", 3), Err(ReadFault::TooLarge { max: 3 })));
    }

    #[test]
    fn a_fifo_or_a_folder_is_refused_at_once() {
        let (place, folder) = folder();
        let fifo = place.path().join("in/fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(matches!(folder.read("fifo", 10), Err(ReadFault::NotRegular)));
        assert!(matches!(folder.read(".", 10), Err(ReadFault::NotRegular)));
        assert!(matches!(folder.read("none", 10), Err(ReadFault::Missing)));
    }
}
