//! One file per writer: everybody writes below a folder of its own, so nothing has to be coordinated.
//!
//! ```text
//! <writer>/<time>-<name>    whole, once it is there; the time is the file server's
//! <writer>/.<draft>         being written
//! ```
//!
//! Whoever reads takes all writers' files in the order of their names, which is the order of time.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::dir::Dir;
use crate::error::{Error, Result};
use crate::files::{Files, Kernel, Onto};
use crate::name::{ItemName, check_worker};
use crate::process::{host, nonce};
use crate::queue::Mode;

/// Touched to learn the file server's time.
const CLOCK: &str = ".bell-clock";

/// One writer's folder.
#[derive(Debug)]
pub struct Outbox {
    folder: Dir,
    writer: String,
    last_ns: AtomicU64,
}

/// A file that some writer has put out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Letter {
    /// Who wrote it.
    pub writer: String,
    /// Its name, which begins with the time.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// How many bytes it has.
    pub bytes: u64,
}

/// What was left by writers that are silent, and is removed or would be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cleaned {
    /// Half-written files.
    pub drafts: Vec<PathBuf>,
    /// Empty folders.
    pub folders: Vec<PathBuf>,
}

impl Outbox {
    /// Opens a writer's folder below `root`, made if it is not there. Without a name it is one nobody else has.
    ///
    /// # Errors
    /// If the name is not a plain one, or the folder can't be made.
    pub fn open(root: &Path, writer: Option<&str>) -> Result<Self> {
        Self::open_with(root, writer, Arc::new(Kernel))
    }

    /// As [`Outbox::open`], over another layer of files, for tests.
    ///
    /// # Errors
    /// As [`Outbox::open`].
    pub fn open_with(root: &Path, writer: Option<&str>, files: Arc<dyn Files>) -> Result<Self> {
        let writer = match writer {
            Some(writer) => writer.to_owned(),
            None => format!("{}-{}-{}", host(), std::process::id(), nonce()),
        };
        check_worker(&writer)?;
        std::fs::create_dir_all(root).map_err(|error| Error::io("make the folder", root, error))?;
        let root = Dir::open(root, files)?;
        let folder = root.ensure(&writer).map_err(root.fault("make the folder", &writer))?;
        Ok(Self { folder, writer, last_ns: AtomicU64::new(0) })
    }

    /// Whose it is.
    pub fn writer(&self) -> &str {
        &self.writer
    }

    /// Where it is. Whatever the writer puts there under a name without a dot in front counts.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a file out: whole, or not at all. Durable before it returns.
    ///
    /// # Errors
    /// If the name is not a plain one, or it can't be written; then nothing was put out.
    pub fn put(&self, content: impl Read, name: Option<&str>) -> Result<PathBuf> {
        let name = name.map(ItemName::new).transpose()?;
        let draft = format!(".{}", nonce());
        let put = self.write(&draft, content).and_then(|stamp| {
            let name = match &name {
                Some(name) => format!("{:020}-{name}", self.later(stamp)),
                None => format!("{:020}", self.later(stamp)),
            };
            self.folder.rename(&draft, &self.folder, &name, Onto::Anything)?;
            self.folder.sync()?;
            Ok(name)
        });
        if put.is_err() {
            // What can't be removed now is found by the next clean-up.
            let _ = self.folder.remove(&draft);
        }
        let name = put.map_err(self.folder.fault("put a file into", ""))?;
        Ok(self.folder.path().join(name))
    }

    fn write(&self, draft: &str, mut content: impl Read) -> io::Result<Duration> {
        let mut file = self.folder.create(draft)?;
        io::copy(&mut content, &mut file)?;
        self.folder.files().sync(file.as_fd())?;
        let seen = self.folder.look(draft)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(seen.changed)
    }

    /// Stamps come in steps; files of one writer keep their order within a step.
    fn later(&self, stamp: Duration) -> u64 {
        let ns = u64::try_from(stamp.as_nanos()).unwrap_or(u64::MAX);
        let rise = |last: u64| Some(ns.max(last.saturating_add(1)));
        let last = self.last_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rise);
        ns.max(last.unwrap_or(0).saturating_add(1))
    }
}

/// All writers' files, in the order in which they are to be merged: by time, then by writer.
///
/// # Errors
/// Those of listing.
pub fn letters(root: &Path) -> Result<Vec<Letter>> {
    let root = Dir::open(root, Arc::new(Kernel))?;
    let mut letters = Vec::new();
    for (writer, folder) in writers(&root)? {
        for entry in folder.entries().map_err(folder.fault("list", ""))? {
            let Some(name) = ItemName::found(&entry.name) else { continue };
            let seen = folder.look(&name).map_err(folder.fault("look at", &name))?;
            let Some(seen) = seen.filter(|seen| seen.is_file()) else { continue };
            let (name, path) = (name.to_string(), folder.path().join(name.as_str()));
            letters.push(Letter { writer: writer.clone(), name, path, bytes: seen.size });
        }
    }
    letters.sort_by(|a, b| (&a.name, &a.writer).cmp(&(&b.name, &b.writer)));
    Ok(letters)
}

/// Removes half-written files and empty folders of writers that were silent for longer than given, by the file
/// server's clock. What was put out is never removed.
///
/// # Errors
/// Those of listing and removing.
pub fn clean(root: &Path, silent: Duration, mode: Mode) -> Result<Cleaned> {
    let root = Dir::open(root, Arc::new(Kernel))?;
    let clock = root.ensure(CLOCK).map_err(root.fault("make the folder", CLOCK))?;
    let now = clock.touch().map_err(clock.fault("ask the file server for its time:", ""))?;
    let mut cleaned = Cleaned::default();
    for (writer, folder) in writers(&root)? {
        let entries = folder.entries().map_err(folder.fault("list", ""))?;
        for entry in entries.iter().filter(|entry| entry.name.as_encoded_bytes().starts_with(b".")) {
            let seen = folder.look(&entry.name).map_err(folder.fault("look at", &entry.name))?;
            let is_old = seen.is_some_and(|seen| {
                seen.is_file() && now.saturating_sub(seen.modified.max(seen.changed)) > silent
            });
            if !is_old {
                continue;
            }
            cleaned.drafts.push(folder.path().join(&entry.name));
            if mode == Mode::Act {
                folder.remove(&entry.name).map_err(folder.fault("remove", &entry.name))?;
            }
        }
        let seen = folder.look_at_self().map_err(folder.fault("look at", ""))?;
        if entries.is_empty() && now.saturating_sub(seen.modified) > silent {
            // Somebody may come back to it just now; then it is not empty, and stays.
            if mode == Mode::Look || root.remove_folder(&writer).is_ok() {
                cleaned.folders.push(folder.path().to_path_buf());
            }
        }
    }
    Ok(cleaned)
}

fn writers(root: &Dir) -> Result<Vec<(String, Dir)>> {
    let entries = root.entries().map_err(root.fault("list", ""))?;
    let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
    let plain = names.filter(|name| check_worker(name).is_ok());
    Ok(plain.filter_map(|name| Some((name.clone(), root.folder(&name).ok()?))).collect())
}
