//! Opening a regular file in a folder that others can write to.
//!
//! A link is not followed, also not to create its target. A FIFO is refused: to open one waits for its other end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::errno;

/// No link, no wait, and a terminal does not become this process's own.
const FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens `path` with these options if it is a regular file, or becomes one. Never blocks.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is a link, a FIFO, a folder, a socket or a device; otherwise what the file system says.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let opened = options.clone().custom_flags(FLAGS.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match errno(&error) {
        Some(Errno::LOOP) => refused("it is a symbolic link, and links are not followed"),
        // A FIFO without a reader, or a socket.
        Some(Errno::NXIO | Errno::ISDIR) => refused("it is not a regular file"),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("it is not a regular file")) }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once_and_no_link_creates_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        let mut both = OpenOptions::new();
        both.read(true).write(true).create(true).truncate(false);
        let mut read = OpenOptions::new();
        read.read(true);
        let mut write = OpenOptions::new();
        write.write(true).create(true).truncate(true);
        for options in [&both, &read, &write] {
            for name in ["fifo", "link", "folder"] {
                let error = open(&at(name), options).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
            }
        }
        assert!(!at("target").exists());
        assert!(open(&at("new"), &both).is_ok());
    }
}
