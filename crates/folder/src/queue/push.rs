//! Putting items in: written where nobody looks, synced, and only then given their place.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::place::Place;
use super::{FolderQueue, Syncing};
use crate::dir::FileId;
use crate::error::{Error, Kind, Result, is_in_doubt, is_unsupported};
use crate::files::Onto;
use crate::name::ItemName;
use crate::process::nonce;

impl FolderQueue {
    /// Puts an item in. Without a name it gets one that sorts behind those before it, by the file server's clock.
    ///
    /// Workers see it whole or not at all. Durable before it returns, if the queue syncs.
    ///
    /// # Errors
    /// [`Kind::Exists`] if an item of that name waits, [`Kind::Invalid`] for a name that can't be; then, as
    /// after any other error, nothing was put in.
    pub fn push(&self, content: impl Read, name: Option<&str>) -> Result<ItemName> {
        let name = name.map(ItemName::new).transpose()?;
        let place = &*self.place;
        let draft = format!("{}-{}", std::process::id(), nonce());
        let pushed = write(place, &draft, content).and_then(|file| {
            let name = match name {
                Some(name) => name,
                None => next_name(place, &draft)?,
            };
            put(place, &draft, &file, name)
        });
        if pushed.is_err() {
            // What can't be removed now is removed by the janitor.
            let _ = place.drafts.remove(&draft);
        }
        let name = pushed?;
        place.sync(&[&place.waiting])?;
        Ok(name)
    }
}

fn write(place: &Place, draft: &str, mut content: impl Read) -> Result<File> {
    let mut file = place.drafts.create(draft).map_err(place.drafts.fault("write", draft))?;
    io::copy(&mut content, &mut file).map_err(place.drafts.fault("write", draft))?;
    if place.settings.syncing == Syncing::Everything {
        let files = place.drafts.files();
        files.sync(file.as_fd()).map_err(place.drafts.fault("sync", draft))?;
    }
    Ok(file)
}

/// The draft was stamped by the file server: names of all machines sort by one clock.
fn next_name(place: &Place, draft: &str) -> Result<ItemName> {
    let seen = place.drafts.look(draft).map_err(place.drafts.fault("look at", draft))?;
    let stamp = seen.map_or(Duration::ZERO, |seen| seen.changed);
    let stamp_ns = u64::try_from(stamp.as_nanos()).unwrap_or(u64::MAX);
    // Stamps come in steps; pushes of one process keep their order within a step.
    let later = |last: u64| Some(stamp_ns.max(last.saturating_add(1)));
    let last = place.last_name.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    let ns = stamp_ns.max(last.unwrap_or(0).saturating_add(1));
    let unlike = nonce();
    ItemName::new(&format!("{ns:020}-{}", unlike.get(..8).unwrap_or(&unlike)))
}

fn put(place: &Place, draft: &str, file: &File, name: ItemName) -> Result<ItemName> {
    let moved = match place.drafts.rename(draft, &place.waiting, &name, Onto::Nothing) {
        Err(error) if is_unsupported(&error) => put_by_link(place, draft, &name),
        other => other,
    };
    let Err(error) = moved else { return Ok(name) };
    let may_have_happened =
        is_in_doubt(&error) || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
    if may_have_happened && has_happened(place, draft, file, &name).unwrap_or(false) {
        return Ok(name);
    }
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Err(Error::new(Kind::Exists, format!("push {name}: an item of that name waits already"))
            .hint("Choose another name, or leave the name out."));
    }
    Err(place.waiting.fault("push", &name)(error))
}

/// Where a rename can't refuse to replace, a second name can.
fn put_by_link(place: &Place, draft: &str, name: &ItemName) -> io::Result<()> {
    let files = place.drafts.files();
    files.link(place.drafts.at(draft.as_ref()), place.waiting.at(name.as_ref()))?;
    place.drafts.remove(draft)
}

/// The draft has a name that nobody else knows: if it is gone, it was moved, and its reply got lost.
fn has_happened(place: &Place, draft: &str, file: &File, name: &ItemName) -> io::Result<bool> {
    if place.drafts.look(draft)?.is_none() {
        return Ok(true);
    }
    let ours = id_of(file)?;
    let linked = place.waiting.look(name)?.is_some_and(|seen| seen.id.inode == ours.inode);
    if linked {
        place.drafts.remove(draft)?;
    }
    Ok(linked)
}

fn id_of(file: &File) -> io::Result<FileId> {
    let seen = rustix::fs::fstat(file)?;
    Ok(FileId { device: (0, 0), inode: seen.st_ino })
}
