//! A claimed item: what may be done with it, and being refused once somebody else has it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bell_core::lock::Fence;
use serde::Serialize;

use super::FolderQueue;
use super::list::claimed;
use super::order::sorted;
use super::place::Place;
use crate::dir::{Dir, FileId, Seen};
use crate::error::{Error, Kind, Result, is_in_doubt};
use crate::files::Onto;
use crate::name::ItemName;
use crate::process::nonce;

/// The names that a worker has claimed.
pub(super) type Held = Arc<Mutex<HashSet<ItemName>>>;

/// Why an item failed is kept for people: a few lines are enough.
const MAX_REASON_BYTES: usize = 4_096;

/// An item that is this worker's, until it is done, failed or taken back.
#[derive(Debug)]
pub struct Claim {
    place: Arc<Place>,
    folder: Dir,
    worker: String,
    name: ItemName,
    id: FileId,
    size: u64,
    held: Option<Held>,
}

/// What became of an item that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// It waits for another try, under this name.
    Waits {
        /// Its name in the queue.
        #[serde(serialize_with = "as_text")]
        name: ItemName,
    },
    /// It was tried often enough, and is in `failed/`.
    Failed,
}

fn as_text<S: serde::Serializer>(name: &ItemName, out: S) -> std::result::Result<S::Ok, S::Error> {
    out.serialize_str(name.as_str())
}

impl Claim {
    pub(super) fn new(
        place: Arc<Place>,
        folder: Dir,
        worker: &str,
        name: ItemName,
        seen: &Seen,
        held: &Held,
    ) -> Self {
        let held = Some(Arc::clone(held));
        Self { place, folder, worker: worker.to_owned(), name, id: seen.id, size: seen.size, held }
    }

    /// Its name, with its fence.
    pub fn name(&self) -> &ItemName {
        &self.name
    }

    /// Greater than that of any earlier claim of this item: goes with every write that must not be repeated.
    pub fn fence(&self) -> Fence {
        self.name.fence()
    }

    /// Which try this is, from 1.
    pub fn attempt(&self) -> u64 {
        self.name.attempt()
    }

    /// Who claimed it.
    pub fn worker(&self) -> &str {
        &self.worker
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where it lies while it is claimed.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(self.name.as_str())
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// [`Kind::Stale`] if it was taken back.
    pub fn open(&self) -> Result<File> {
        self.folder.read(&self.name).map_err(|error| self.refused("open", error))
    }

    /// Whether it is still this worker's. Asked before any act that can't be undone.
    ///
    /// # Errors
    /// Those of looking.
    pub fn is_ours(&self) -> Result<bool> {
        match self.folder.look(&self.name) {
            Ok(seen) => Ok(seen.is_some_and(|seen| seen.id == self.id)),
            Err(_) if self.folder.is_gone() => Ok(false),
            Err(error) => Err(self.folder.fault("look at", &self.name)(error)),
        }
    }

    /// Marks it done. Repeated, it is done once.
    ///
    /// # Errors
    /// [`Kind::Stale`] if it was taken back: what this worker did does not count. [`Kind::Unknown`] if no clear
    /// answer came; ask again.
    pub fn done(&self) -> Result<()> {
        let done = &self.place.done;
        self.move_to("mark as done", done, &self.name, Onto::Anything)?;
        self.place.sync(&[done, &self.folder])
    }

    /// Gives it up: it waits for another try, or goes to `failed/` after as many as the queue allows.
    ///
    /// # Errors
    /// As [`Claim::done`].
    pub fn fail(&self, reason: &str) -> Result<Fate> {
        self.note(reason);
        if self.name.is_last(self.place.settings.attempts) {
            let failed = &self.place.failed;
            self.move_to("mark as failed", failed, &self.name, Onto::Anything)?;
            self.place.sync(&[failed, &self.folder])?;
            return Ok(Fate::Failed);
        }
        let name = self.name.next();
        self.put_back(&name)?;
        Ok(Fate::Waits { name })
    }

    /// Gives it back untried: the fence rises, the try does not count.
    ///
    /// # Errors
    /// As [`Claim::done`].
    pub fn give_back(&self) -> Result<ItemName> {
        let name = self.name.untried();
        self.put_back(&name)?;
        Ok(name)
    }

    fn put_back(&self, name: &ItemName) -> Result<()> {
        let waiting = &self.place.waiting;
        self.move_to("put back", waiting, name, Onto::Nothing)?;
        self.place.sync(&[waiting, &self.folder])
    }

    /// The rename is the guard: once the item was taken back, its name is not here any more.
    fn move_to(&self, what: &str, to: &Dir, new: &ItemName, onto: Onto) -> Result<()> {
        let moved = match onto {
            Onto::Nothing => self.place.move_free(&self.folder, &self.name, to, new),
            _ => self.folder.rename(&self.name, to, new, onto),
        };
        let Err(error) = moved else {
            self.let_go();
            return Ok(());
        };
        let may_have_happened = is_in_doubt(&error) || error.kind() == io::ErrorKind::NotFound;
        // The new name has our fence, or one that only our own item can have: nobody else can have made it.
        let arrived = || to.look(new).ok().flatten().is_some_and(|seen| seen.id == self.id);
        if may_have_happened && arrived() {
            self.let_go();
            return Ok(());
        }
        Err(self.refused(what, error))
    }

    fn let_go(&self) {
        if let Some(held) = &self.held {
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        }
    }

    fn refused(&self, what: &str, error: io::Error) -> Error {
        if error.kind() != io::ErrorKind::NotFound && !self.folder.is_gone() {
            return self.folder.fault(what, &self.name)(error);
        }
        self.let_go();
        let message = format!(
            "{what} {}: it is no longer {}'s, whose fence {} is old",
            self.name.base(),
            self.worker,
            self.fence()
        );
        Error::new(Kind::Stale, message)
            .hint("Write nothing more for this item: it was put back, and somebody else has it or will.")
    }

    /// For people who wonder why; nothing depends on it.
    fn note(&self, reason: &str) {
        note(&self.place, &self.name, reason);
    }
}

/// Keeps why an item failed, if that can be done.
pub(super) fn note(place: &Place, name: &ItemName, reason: &str) {
    let end = (0..=reason.len().min(MAX_REASON_BYTES)).rev().find(|end| reason.is_char_boundary(*end));
    let reason = &reason[..end.unwrap_or(0)];
    let draft = format!(".{}", nonce());
    let write = || -> io::Result<()> {
        place.reasons.create(&draft)?.write_all(reason.as_bytes())?;
        place.reasons.rename(&draft, &place.reasons, name.base(), Onto::Anything)
    };
    if write().is_err() {
        let _ = place.reasons.remove(&draft);
    }
}

/// The item in `done/`, if it can be what this claim brought there.
///
/// A name may be used again once its item is done. Then what lies in `done/` is the earlier one if the later was put
/// back, which shows by its fence, wherever it is by now.
fn finished(place: &Place, name: &ItemName) -> Result<Option<Seen>> {
    let Some(seen) = place.done.look(name).map_err(place.done.fault("look at", name))? else {
        return Ok(None);
    };
    let is_later = |other: &ItemName| other.base() == name.base() && other.fence() > name.fence();
    for folder in [&place.waiting, &place.done, &place.failed] {
        if sorted(folder).map_err(folder.fault("list", ""))?.iter().any(is_later) {
            return Ok(None);
        }
    }
    let is_claimed = claimed(place)?.iter().any(|(other, _)| is_later(other));
    Ok((!is_claimed).then_some(seen))
}

impl FolderQueue {
    /// A claim that was made before, by a command that has ended.
    ///
    /// # Errors
    /// [`Kind::Stale`] if the worker does not have it any more, [`Kind::NotFound`] if there is no such worker.
    pub fn claimed(&self, worker: &str, name: &ItemName) -> Result<Claim> {
        crate::name::check_worker(worker)?;
        let place = Arc::clone(&self.place);
        let (folder, found) = match place.claimed.folder(worker) {
            Ok(folder) => {
                let found = folder.look(name).map_err(folder.fault("look at", name))?;
                (folder, found)
            }
            // Whoever has nothing left to do has no folder either.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (place.claimed.clone(), None),
            Err(error) => return Err(place.claimed.fault("open the folder", worker)(error)),
        };
        // Done before, by this very claim: the name has its fence.
        let found = match found {
            Some(seen) => Some(seen),
            None => finished(&place, name)?,
        };
        match found {
            Some(seen) => {
                let (id, size) = (seen.id, seen.size);
                Ok(Claim {
                    place,
                    folder,
                    worker: worker.to_owned(),
                    name: name.clone(),
                    id,
                    size,
                    held: None,
                })
            }
            None => {
                let message = format!("go on with {}: {worker} does not have it (any more)", name.base());
                Err(Error::new(Kind::Stale, message).hint(
                    "Write nothing more for this item: it was put back, and somebody else has it or will.",
                ))
            }
        }
    }
    /// Forgets a worker that has nothing left. What it still has stays.
    pub fn leave(&self, worker: &str) {
        let is_empty =
            crate::name::check_worker(worker).is_ok() && self.place.claimed.remove_folder(worker).is_ok();
        if is_empty {
            // What can't be removed is removed by the janitor.
            let _ = self.place.workers.remove(worker);
        }
    }
}
