//! A new epoch: revisions above all that were given out, for a folder that was set back to an older copy.
//!
//! The folder can't tell that it was; whoever brought the copy back says so. In the journal it is a batch without changes,
//! which every version of the store can read.

use std::path::Path;
use std::sync::Arc;

use bell_store::{Error, Kind, Result, Revision, clock, epoch};

use crate::append::{Nonces, Site, append, recover};
use crate::batch::Batch;
use crate::dir::Dir;
use crate::head::Head;
use crate::lock::Lock;
use crate::set_up::set_up;
use crate::view::Reach;

/// Refuses a path with nothing at it, where opening would make a store.
pub(crate) fn existing(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let message = format!("raise the epoch: there is no store at {}", path.display());
    Err(Error::new(Kind::Invalid, message).hint("Name the folder of the store."))
}

/// Raises the epoch of the store in `dir`. Answers its first revision.
pub(crate) fn raise(dir: &Arc<Dir>, reach: Reach) -> Result<Revision> {
    let (lock, mut nonces) = (Lock::open(dir)?, Nonces::new()?);
    let (mut view, clock) = set_up(dir, &lock, reach, &mut nonces)?;
    let held = lock.alone()?;
    let site = Site { held: &held, dir, reach };
    // Somebody may have written since.
    let head = Head::read_existing(held.marker())?;
    view.follow(&head)?;
    let head = recover(site, &mut view, &head)?;
    let (before, now) = (head.revision, clock.now(view.image())?);
    let after = epoch::raised(before, clock::wall());
    let batch = Batch { nonce: nonces.next(), before, after, now, changes: Vec::new() };
    append(site, &*view.journal(&head)?, &head, &batch)?;
    Ok(after)
}
