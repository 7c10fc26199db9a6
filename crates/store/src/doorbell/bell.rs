//! One process's bell: a file that the others watch.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

/// Tells the bells of one process apart.
static HUNG: AtomicU64 = AtomicU64::new(0);

/// The file this process rings with. Its lock shows that it is in use; dropped, the file is removed.
pub(super) struct Bell {
    folder: PathBuf,
    name: String,
    file: File,
    /// Each ring leaves another number, so that one who only looks now and then sees that there was one.
    rings: AtomicU64,
}

impl Bell {
    /// Hangs up a new bell in `folder/bells`, and takes down those that nobody holds any more.
    pub(super) fn hang(folder: &Path) -> io::Result<Self> {
        let folder = folder.join("bells");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let bell = Self::create(folder)?;
        bell.take_down_abandoned();
        Ok(bell)
    }

    fn create(folder: PathBuf) -> io::Result<Self> {
        loop {
            let name = format!("{}-{}", std::process::id(), HUNG.fetch_add(1, Ordering::Relaxed));
            let file = match new_file(&folder.join(&name)) {
                // Process ids come round, and two containers may have the same ones.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            file.lock()?;
            // Another process may have taken it for abandoned before it was locked.
            if file.metadata()?.nlink() == 1 {
                return Ok(Self { folder, name, file, rings: AtomicU64::new(0) });
            }
        }
    }

    /// The folder where all bells hang.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file name of this bell.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Tells the watchers on this machine: one write to memory, nothing waits for a disk.
    pub(super) fn ring(&self) -> io::Result<()> {
        self.file.write_all_at(&self.next(), 0)
    }

    /// Rings so that other machines see it too: a network file system sends what was written
    /// when the file is closed.
    pub(super) fn ring_and_flush(&self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.folder.join(&self.name))?;
        file.write_all_at(&self.next(), 0)
    }

    /// What the other bells show. It differs from an earlier look if one of them rang in between.
    pub(super) fn others(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let mut others = BTreeMap::new();
        for name in self.other_names()? {
            // Opened anew, which makes a network file system ask its server. One that is gone rang before.
            if let Ok(shown) = fs::read(self.folder.join(&name)) {
                others.insert(name, shown);
            }
        }
        Ok(others)
    }

    fn next(&self) -> [u8; 8] {
        (self.rings.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes()
    }

    fn other_names(&self) -> io::Result<Vec<String>> {
        let names =
            fs::read_dir(&self.folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| *name != self.name).collect())
    }

    /// Removes the bells of processes that were killed. One that can't be removed does no harm.
    fn take_down_abandoned(&self) {
        for name in self.other_names().unwrap_or_default() {
            let path = self.folder.join(name);
            let Ok(file) = open_plainly(&path) else { continue };
            if file.try_lock().is_ok() {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // One that stays is taken down by the next process to come.
        let _ = fs::remove_file(self.folder.join(&self.name));
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    // The bytes are there from the start: a ring needs no space on a disk that is full by then.
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all_at(&0_u64.to_be_bytes(), 0)?;
    Ok(file)
}

/// Opens what may be a trap (a link, a pipe) without following or waiting.
fn open_plainly(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}
