//! The identity of the open files: whether each path still leads to the file that this process has open.
//!
//! SQLite does not notice that its file was removed or replaced: it goes on in a file that nobody else can open, and what
//! was answered is gone with the process. So the device and inode of each path are compared before and after each commit,
//! and before each read. (SQLite itself leaves the log of a file that was moved alone when it closes it.) Nothing here opens a file: closing it again would drop SQLite's own locks on it.

use std::error::Error as StdError;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bell_store::Kind;

use crate::fault::Fault;
use crate::place::Place;

/// A file, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(seen: &Metadata) -> Self {
        Self { device: seen.dev(), inode: seen.ino() }
    }
}

/// The files of an open store, and the paths that must lead to them.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    paths: Vec<(PathBuf, FileId)>,
    /// Once a path led elsewhere, other processes may use another file: this one is never trusted again.
    is_replaced: AtomicBool,
}

impl OpenFiles {
    /// Remembers the files of a store that has just been opened: connections have read from it, so its log is there.
    ///
    /// # Errors
    /// The file is not the one that was found before it was opened, or can't be looked at.
    pub(crate) fn remember(place: &Place) -> Result<Self, Fault> {
        let mut paths = Vec::new();
        for path in place.named.iter().chain([&place.file]) {
            paths.push((path.clone(), place.id));
        }
        for path in [place.wal(), place.index()] {
            match fs::metadata(&path) {
                Ok(seen) => paths.push((path, FileId::of(&seen))),
                // A file that nobody can change is read without them.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Fault::new(Kind::of_io(&error), error)),
            }
        }
        let files = Self { paths, is_replaced: AtomicBool::new(false) };
        files.check()?;
        Ok(files)
    }

    /// # Errors
    /// [`Kind::Replaced`], from now on for good, if a path leads elsewhere or nowhere; what the system says if that can't be
    /// learnt now.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_replaced.load(Ordering::Acquire) {
            return Err(self.replaced());
        }
        for (path, id) in &self.paths {
            match fs::metadata(path) {
                Ok(seen) if FileId::of(&seen) == *id => {}
                Err(error) if !is_missing(&error) => return Err(Fault::new(Kind::of_io(&error), error)),
                _ => {
                    self.is_replaced.store(true, Ordering::Release);
                    tracing::error!(
                        path = %path.display(),
                        "a file of the store was removed or replaced while it was open; everything is refused"
                    );
                    return Err(self.replaced());
                }
            }
        }
        Ok(())
    }

    fn replaced(&self) -> Fault {
        // Without its folder: the words may be read over a network.
        let name = self.paths.first().and_then(|(path, _)| path.file_name());
        Fault::new(Kind::Replaced, Replaced(name.unwrap_or_default().to_string_lossy().into_owned()))
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[derive(Debug)]
struct Replaced(String);

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} or a file beside it was removed or replaced while this process had it open", self.0)
    }
}

impl StdError for Replaced {}

/// The absolute path that a store was named by, if it is another than that of the file.
pub(crate) fn other_name(named: &Path, file: &Path) -> io::Result<Option<PathBuf>> {
    let named = std::path::absolute(named)?;
    Ok((named != file).then_some(named))
}
