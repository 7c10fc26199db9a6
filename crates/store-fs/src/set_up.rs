//! Making a folder ready: a new one gets its first journal, a used one is brought into order.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bell_store::Result;
use bell_store::record::Timestamp;

use crate::append::{Nonces, Site, append, recover};
use crate::batch::{Batch, Change, Nonce};
use crate::dir::{Dir, Opening};
use crate::fault;
use crate::head::{self, Head};
use crate::journal::{self, FIRST_GENERATION, START_BYTES, Start};
use crate::lock::{Held, Lock};
use crate::timekeeper::Timekeeper;
use crate::view::{Reach, View};

/// Makes the folder ready, and reads what is in it.
///
/// # Errors
/// If it can't be locked, read or written, or what is in it can't be trusted or used from here.
pub(crate) fn set_up(
    dir: &Arc<Dir>,
    lock: &Lock,
    reach: Reach,
    nonces: &mut Nonces,
) -> Result<(View, Timekeeper)> {
    let held = lock.alone()?;
    let site = Site { held: &held, dir, reach };
    let head = match Head::read(held.marker())? {
        Some(head) => head,
        None => begin(&held, dir)?,
    };
    let mut view = View::new(Arc::clone(dir), reach);
    view.follow(&head)?;
    let head = recover(site, &mut view, &head)?;
    let clock = Timekeeper::start(dir, reach, view.image())?;
    if view.image().epoch != Some(clock.epoch()) {
        start_epoch(site, &mut view, &head, &clock, nonces.next())?;
    }
    Ok((view, clock))
}

/// Nothing counts before the head is on the disk, so a crash on the way only means beginning again.
fn begin(held: &Held<'_>, dir: &Dir) -> Result<Head> {
    check_unused(dir)?;
    let file = dir.file(&journal::name(FIRST_GENERATION), Opening::Empty)?;
    let start = Start { generation: FIRST_GENERATION, revision: 0, now: Timestamp::default() };
    let length = START_BYTES as u64;
    let head =
        Head { sequence: 1, generation: FIRST_GENERATION, length, revision: 0, nonce: Nonce::default() };
    let marker = held.marker();
    let write = || -> io::Result<()> {
        file.write_all_at(&start.encode(), 0)?;
        file.sync_all()?;
        head::write_notice(marker)?;
        marker.sync_all()?;
        dir.sync()?;
        head.write(marker)?;
        marker.sync_all()
    };
    write().map_err(|error| fault::of_io(error, &format!("set up a store in {}", dir.path().display())))?;
    Ok(head)
}

/// A journal with something in it beside an empty marker file: somebody has removed the real one.
fn check_unused(dir: &Dir) -> Result<()> {
    let failed = |error| fault::of_io(error, &format!("look at {}", dir.path().display()));
    for name in dir.names().map_err(failed)? {
        let Some(generation) = journal::generation_of(&name) else { continue };
        let file = dir.find(&name)?;
        let length = file.map_or(Ok(0), |file| file.metadata().map(|seen| seen.len())).map_err(failed)?;
        if generation != FIRST_GENERATION || length > START_BYTES as u64 {
            return Err(fault::corrupt(
                "use the store: it has a journal and no head, its marker file was replaced",
            ));
        }
    }
    Ok(())
}

fn start_epoch(site: Site<'_>, view: &mut View, head: &Head, clock: &Timekeeper, nonce: Nonce) -> Result<()> {
    let now = clock.read()?.max(view.image().now);
    let (before, after) = (head.revision, head.revision);
    let epoch = Change::Epoch(clock.epoch());
    let batch = Batch { nonce, before, after, now, changes: vec![epoch] };
    let journal = view.journal(head)?;
    let head = append(site, &journal, head, &batch)?;
    view.take_in(batch, &head);
    Ok(())
}
