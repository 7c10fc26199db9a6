//! Where drafts lie: `.bell-publish/` beside the destination, on the same file system.
//!
//! ```text
//! <nonce>.owner    locked while its publisher lives; made first, removed last
//! <nonce>          a draft; after a swap, the folder that was replaced
//! NAME@<nonce>     a version that a link leads to, or is about to
//! <nonce>.link     the link that is about to be put in place
//! <nonce>.trash    on its way out
//! ```
//!
//! Whatever has an owner that is not locked belongs to nobody any more, and the next publisher removes it.
//! What was replaced stays until then, for readers that are in the midst of it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bell_store::mount::network;

use super::Way;
use super::copy::{self, Copied};
use super::source::Source;
use crate::dir::{Dir, FileId};
use crate::error::{Error, Kind, Result};
use crate::files::Onto;
use crate::lock::{Locked, lock};
use crate::process::nonce;

pub(super) const WORKSHOP: &str = ".bell-publish";

/// What a draft will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DraftKind {
    File,
    Folder,
    Version,
}

/// The drafts beside a destination.
pub(super) struct Workshop {
    folder: Dir,
    name: String,
    /// What the destination's link led to before.
    before: Option<String>,
}

/// For how long a replaced version stays on a network file system: an NFS client remembers for up to 60 s (`acdirmax`)
/// where a link leads, and its readers must find something there.
const KEEP_ON_NETWORK: Duration = Duration::from_secs(90);
/// Replaced versions that stay at the most: whoever publishes more often than that has slow readers try again rather than
/// a full disk.
const MAX_KEPT: usize = 100;

/// A version that a link leads to, or led to.
#[derive(Debug)]
struct Version {
    name: String,
    /// When it was finished, by the file server's clock.
    made: Duration,
}

/// The versions that nobody is led to any more, going by when the one after each was made.
fn outlived(mut versions: Vec<Version>, current: &str, keep: Duration) -> Vec<String> {
    let Some(now) = versions.iter().find(|version| version.name == current).map(|version| version.made)
    else {
        return Vec::new();
    };
    // Newest first.
    versions.sort_by_key(|version| std::cmp::Reverse(version.made));
    let replaced = std::iter::once(now).chain(versions.iter().map(|version| version.made));
    let is_due = |(at, replaced): (usize, Duration)| {
        keep.is_zero() || at > MAX_KEPT || now.saturating_sub(replaced) > keep
    };
    let due: Vec<bool> = replaced.enumerate().map(is_due).collect();
    let others = versions.into_iter().zip(due).filter(|(version, due)| *due && version.name != current);
    others.map(|(version, _)| version.name).collect()
}

/// Something that is not published yet.
pub(super) struct Draft {
    folder: Dir,
    pub(super) nonce: String,
    /// Its name in the workshop.
    pub(super) name: String,
    /// Held for its lock.
    _owner: File,
}

impl Workshop {
    /// Opens it, and clears up after the dead. Answers how many of them there were.
    pub(super) fn open(parent: &Dir, name: &str) -> Result<(Self, u64)> {
        let folder = parent.ensure(WORKSHOP).map_err(parent.fault("make the folder", WORKSHOP))?;
        let (here, there) = (parent.look_at_self(), folder.look_at_self());
        let same = here.is_ok_and(|here| there.is_ok_and(|there| here.id.device == there.id.device));
        if !same {
            let what =
                format!("publish in {}: {WORKSHOP} is on another file system", parent.path().display());
            return Err(Error::new(Kind::Unsupported, what).hint("Remove what is mounted there."));
        }
        let workshop = Self { name: name.to_owned(), before: led_to(parent, name), folder };
        // What can't be cleared up stands in nobody's way; the next publisher tries again.
        let swept = workshop.sweep(parent).unwrap_or(0);
        Ok((workshop, swept))
    }

    /// Begins something new.
    pub(super) fn draft(&self, kind: DraftKind) -> Result<Draft> {
        let fault = |error| self.folder.fault("write", "")(error);
        let (nonce, owner) = self.own().map_err(fault)?;
        let name = match kind {
            DraftKind::File | DraftKind::Folder => nonce.clone(),
            DraftKind::Version => format!("{}@{nonce}", self.name),
        };
        Ok(Draft { folder: self.folder.clone(), nonce, name, _owner: owner })
    }

    fn own(&self) -> io::Result<(String, File)> {
        loop {
            let nonce = nonce();
            let name = format!("{nonce}.owner");
            let file = self.folder.create(&name)?;
            lock(&file, Duration::ZERO)?;
            let id = rustix::fs::fstat(&file)?.st_ino;
            // Before it was locked, another publisher may have taken it for a dead one's.
            if self.folder.look(&name)?.is_some_and(|seen| seen.id.inode == id) {
                return Ok((nonce, file));
            }
        }
    }

    /// Clears up after a publish. What can't be removed now, the next publisher removes.
    pub(super) fn tidy(&self, draft: Draft, way: Way) {
        match way {
            Way::Renamed => draft.release(),
            // The old folder stays under the draft's name, with an owner that is not locked.
            Way::Exchanged => {}
            Way::Linked => {
                let _ = self.remove_versions(&draft.name);
                draft.release();
            }
        }
    }

    /// All but the version that is current, the one before it, and those that other machines may still be led to;
    /// those being made have an owner.
    fn remove_versions(&self, current: &str) -> io::Result<()> {
        let prefix = format!("{}@", self.name);
        let mut versions = Vec::new();
        for entry in self.folder.entries()? {
            let Some(name) = entry.name.to_str().filter(|name| name.starts_with(&prefix)) else { continue };
            if let Some(seen) = self.folder.look(name)? {
                versions.push(Version { name: name.to_owned(), made: seen.changed });
            }
        }
        let keep = match network(self.folder.path()) {
            Ok(None) => Duration::ZERO,
            Ok(Some(_)) | Err(_) => KEEP_ON_NETWORK,
        };
        for name in outlived(versions, current, keep) {
            let nonce = name.strip_prefix(&prefix).unwrap_or(&name);
            let is_before = self.before.as_ref() == Some(&name);
            if !is_before && self.folder.look(format!("{nonce}.owner"))?.is_none() {
                self.trash(&name, nonce)?;
            }
        }
        Ok(())
    }

    fn sweep(&self, parent: &Dir) -> io::Result<u64> {
        let mut swept = 0;
        let entries = self.folder.entries()?;
        let names: Vec<&str> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
        for trash in names.iter().filter(|name| name.ends_with(".trash")) {
            copy::remove(&self.folder, trash)?;
        }
        for owner in names.iter().filter(|name| name.ends_with(".owner")) {
            let Ok(file) = self.folder.edit(owner) else { continue };
            if lock(&file, Duration::ZERO)? == Locked::Busy {
                continue;
            }
            let nonce = owner.trim_end_matches(".owner");
            self.bury(parent, nonce, &names)?;
            self.folder.remove(owner)?;
            swept += 1;
        }
        Ok(swept)
    }

    /// Removes what a dead publisher left, but nothing that is published.
    fn bury(&self, parent: &Dir, nonce: &str, names: &[&str]) -> io::Result<()> {
        let version = names.iter().find(|name| name.rsplit_once('@').is_some_and(|(_, of)| of == nonce));
        if let Some(version) = version {
            let of = version.rsplit_once('@').map_or("", |(name, _)| name);
            if led_to(parent, of).as_deref() != Some(*version) {
                self.trash(version, nonce)?;
            }
        }
        self.folder.remove(format!("{nonce}.link"))?;
        self.trash(nonce, nonce)
    }

    /// First out of the way, so that nobody can put a half-removed folder in place.
    fn trash(&self, name: &str, nonce: &str) -> io::Result<()> {
        let trash = format!("{nonce}.trash");
        copy::remove(&self.folder, &trash)?;
        match self.folder.rename(name, &self.folder, &trash, Onto::Anything) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => copy::remove(&self.folder, &trash),
        }
    }
}

impl Draft {
    /// Copies the source into it, durably.
    pub(super) fn fill(&self, source: &Source) -> Result<Copied> {
        let copied = match source {
            Source::File(path) => copy::named_file(path, &self.folder, &self.name)?,
            Source::Folder(path) => copy::named_folder(path, &self.make()?)?,
            Source::Together(files) => self.gather(files)?,
        };
        self.folder.sync().map_err(self.folder.fault("sync", ""))?;
        Ok(copied)
    }

    fn make(&self) -> Result<Dir> {
        self.folder.ensure(&self.name).map_err(self.folder.fault("make the folder", &self.name))
    }

    fn gather(&self, files: &[(std::path::PathBuf, String)]) -> Result<Copied> {
        let root = self.make()?;
        let mut copied = Copied::default();
        for (path, name) in files {
            let (folders, name) = name.rsplit_once('/').map_or(("", name.as_str()), |(f, n)| (f, n));
            let mut at = root.clone();
            for part in folders.split('/').filter(|part| !part.is_empty()) {
                let inner = at.ensure(part).map_err(at.fault("make the folder", part))?;
                at.sync().map_err(at.fault("sync", ""))?;
                at = inner;
            }
            copied += copy::named_file(path, &at, name)?;
            at.sync().map_err(at.fault("sync", ""))?;
        }
        root.sync().map_err(root.fault("sync", ""))?;
        Ok(copied)
    }

    /// The folder that it lies in.
    pub(super) fn folder(&self) -> &Dir {
        &self.folder
    }

    /// Which file it is, whatever its name.
    pub(super) fn id(&self) -> io::Result<FileId> {
        let seen = self.folder.look(&self.name)?;
        seen.map(|seen| seen.id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Removes it unpublished. What can't be removed now, the next publisher removes.
    pub(super) fn discard(self) {
        if copy::remove(&self.folder, &self.name).is_ok() {
            self.release();
        }
    }

    fn release(self) {
        let _ = self.folder.remove(format!("{}.link", self.nonce));
        let _ = self.folder.remove(format!("{}.owner", self.nonce));
    }
}

/// The version that a destination is a link to.
pub(super) fn led_to(parent: &Dir, name: &str) -> Option<String> {
    let target = rustix::fs::readlinkat(parent.as_fd(), name, Vec::new()).ok()?;
    let target = target.to_str().ok()?;
    let version = target.strip_prefix(WORKSHOP)?.strip_prefix('/')?;
    (!version.contains('/')).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlived_at(made: &[u64], current: u64, keep_s: u64) -> Vec<String> {
        let version = |s: &u64| Version { name: format!("v{s}"), made: Duration::from_secs(*s) };
        let versions = made.iter().map(version).collect();
        outlived(versions, &format!("v{current}"), Duration::from_secs(keep_s))
    }

    #[test]
    fn on_one_machine_only_the_current_version_has_to_stay() {
        assert_eq!(outlived_at(&[1, 2, 3], 3, 0), ["v2", "v1"]);
    }

    #[test]
    fn a_version_stays_until_it_was_replaced_for_long_enough() {
        // v10 was replaced at 100, v100 at 150, v150 at 200.
        assert_eq!(outlived_at(&[10, 150, 100, 200], 200, 90), ["v10"]);
        assert_eq!(outlived_at(&[10, 150, 100, 200], 200, 100), Vec::<String>::new());
        assert_eq!(outlived_at(&[10, 5_000], 5_000, 90), Vec::<String>::new(), "just replaced, however old");
    }

    #[test]
    fn no_more_stay_than_a_disk_should_bear() {
        let made: Vec<u64> = (1..=500).collect();
        let kept = made.len() - outlived_at(&made, 500, 7_000).len();
        assert_eq!(kept, MAX_KEPT + 1, "and the current one");
    }

    #[test]
    fn where_the_current_version_is_not_seen_nothing_is_removed() {
        assert_eq!(outlived_at(&[1, 2], 3, 0), Vec::<String>::new());
    }
}
