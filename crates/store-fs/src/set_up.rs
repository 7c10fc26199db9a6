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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Epoch;
    use bell_store::Kind;

    fn folder() -> (tempfile::TempDir, Arc<Dir>, Lock) {
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(temp.path()).unwrap());
        let lock = Lock::open(&dir).unwrap();
        (temp, dir, lock)
    }

    /// Appends what another boot, or another machine, would: it opened the folder an hour from now.
    fn open_elsewhere(dir: &Arc<Dir>, lock: &Lock, now: Timestamp) {
        let held = lock.alone().unwrap();
        let site = Site { held: &held, dir, reach: Reach::Host };
        let head = Head::read_existing(held.marker()).unwrap();
        let mut view = View::new(Arc::clone(dir), Reach::Host);
        view.follow(&head).unwrap();
        let epoch = Epoch::Boot { id: "elsewhere".to_owned(), base_ms: now.as_ms() };
        let (before, after) = (head.revision, head.revision);
        let batch = Batch { nonce: Nonce([7; 16]), before, after, now, changes: vec![Change::Epoch(epoch)] };
        append(site, &view.journal(&head).unwrap(), &head, &batch).unwrap();
    }

    #[test]
    fn opening_a_folder_again_changes_nothing() {
        let (temp, dir, lock) = folder();
        let mut nonces = Nonces::new().unwrap();
        let journal = temp.path().join(journal::name(FIRST_GENERATION));
        set_up(&dir, &lock, Reach::Host, &mut nonces).unwrap();
        let first = std::fs::read(&journal).unwrap();
        set_up(&dir, &lock, Reach::Host, &mut nonces).unwrap();
        assert_eq!(std::fs::read(&journal).unwrap(), first);
    }

    #[test]
    fn time_goes_on_after_a_boot_and_who_opened_before_it_is_told() {
        let (_temp, dir, lock) = folder();
        let mut nonces = Nonces::new().unwrap();
        let (mut view, clock) = set_up(&dir, &lock, Reach::Host, &mut nonces).unwrap();
        let later = clock.now(view.image()).unwrap() + std::time::Duration::from_secs(3_600);
        open_elsewhere(&dir, &lock, later);

        view.follow(&Head::read_existing(lock.marker().unwrap()).unwrap()).unwrap();
        assert_eq!(clock.now(view.image()).unwrap_err().kind(), Kind::Unsupported);

        let (view, clock) = set_up(&dir, &lock, Reach::Host, &mut nonces).unwrap();
        assert!(clock.now(view.image()).unwrap() >= later);
    }
}
