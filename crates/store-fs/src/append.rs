//! Appending to the journal, so that a batch is durable or not there at all. Always under the lock.
//!
//! The order is: write, sync, look whether it is ours, write the head. Only the head makes a batch visible.
//! What fails before the sync is cut off again and did not happen. A failed sync leaves a doubt that no second
//! try can remove: the kernel reports it once and then takes the lost pages for written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bell_store::{Error, Kind, Result};
use rustix::fs::{Advice, fadvise};

use crate::batch::{Batch, Found, HEADER_BYTES, Nonce, nonce_of};
use crate::dir::{Dir, MARKER};
use crate::fault;
use crate::head::Head;
use crate::journal::{self, Batches};
use crate::lock::{Held, drop_cached};
use crate::view::{Reach, View};

/// Makes nonces: a random number for the process, then counting.
#[derive(Debug)]
pub(crate) struct Nonces {
    process: u64,
    count: u64,
}

impl Nonces {
    /// Nonces that no other process uses.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new() -> Result<Self> {
        let process = getrandom::u64().map_err(|error| {
            Error::new(Kind::Unavailable, "get a random number").because(io::Error::other(error.to_string()))
        })?;
        Ok(Self { process, count: 0 })
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Nonce {
        self.count += 1;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.process.to_le_bytes());
        nonce[8..].copy_from_slice(&self.count.to_le_bytes());
        Nonce(nonce)
    }
}

/// The folder, locked for writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// The lock, held.
    pub(crate) held: &'a Held<'a>,
    /// The folder.
    pub(crate) dir: &'a Dir,
    /// Between whom it is shared.
    pub(crate) reach: Reach,
}

/// Appends a batch and makes it visible. Answers with the new head.
///
/// # Errors
/// [`Kind::Unknown`] if it may come to be there all the same; any other kind if nothing happened.
pub(crate) fn append(site: Site<'_>, journal: &File, head: &Head, batch: &Batch) -> Result<Head> {
    let bytes = batch.encode();
    write(journal, head.length, &bytes)?;
    if let Err(error) = journal.sync_data() {
        return Err(not_synced(journal, head.length, error));
    }
    check_ours(site, journal, head, batch.nonce)?;
    let length = head.length + bytes.len() as u64;
    let next =
        Head { sequence: head.sequence + 1, length, revision: batch.after, nonce: batch.nonce, ..*head };
    publish(site, &next).map_err(|error| fault::in_doubt(error, "write the head of the store"))?;
    Ok(next)
}

/// Writes the head. Other machines see it at once only if it is synced; on this machine it is seen anyway,
/// and if the power fails the journal itself shows how far it goes.
///
/// # Errors
/// Those of writing and syncing.
fn publish(site: Site<'_>, head: &Head) -> io::Result<()> {
    let marker = site.held.marker();
    head.write(marker)?;
    match site.reach {
        Reach::Host => Ok(()),
        Reach::Network => marker.sync_data(),
    }
}

/// Deals with what an earlier writer left behind the end: it was killed, or its head was lost with the power.
/// Whole batches count, as they may have been answered; the rest is cut off. Answers with the new head.
///
/// # Errors
/// [`Kind::Corrupt`] if the journal is shorter than it must be, or those of reading and writing.
pub(crate) fn recover(site: Site<'_>, view: &mut View, head: &Head) -> Result<Head> {
    let journal = view.journal(head)?;
    let failed = |error| fault::of_io(error, "recover an unfinished append");
    let length = journal.metadata().map_err(failed)?.len();
    if length == head.length {
        return Ok(*head);
    }
    if length < head.length {
        let (needed, revision) = (head.length, head.revision);
        let message =
            format!("use the journal: it has {length} bytes and had {needed} at revision {revision}");
        return Err(fault::corrupt(message));
    }
    let next = left_behind(&journal, head, length)?;
    tracing::warn!(
        kept_bytes = next.length - head.length,
        cut_bytes = length - next.length,
        "found an unfinished append"
    );
    journal.set_len(next.length).map_err(failed)?;
    if next != *head {
        rewrite(&journal, head.length, next.length).and_then(|()| publish(site, &next)).map_err(failed)?;
        view.follow(&next)?;
    }
    Ok(next)
}

/// The head that also vouches for the whole batches behind it.
fn left_behind(journal: &File, head: &Head, length: u64) -> Result<Head> {
    let mut batches = Batches::between(journal, head.length, length);
    let mut next = *head;
    while let Found::Batch(batch, _) = batches.next()? {
        if batch.before != next.revision {
            break;
        }
        next.length = batches.offset;
        next.revision = batch.after;
        next.nonce = batch.nonce;
        next.sequence = head.sequence + 1;
    }
    Ok(next)
}

/// Writes the same bytes again before syncing them: if a sync of them has failed before, the kernel takes them for
/// written, and only a new write makes it try again.
fn rewrite(journal: &File, offset: u64, end: u64) -> io::Result<()> {
    let mut bytes = vec![0; usize::try_from(end - offset).map_err(io::Error::other)?];
    journal.read_exact_at(&mut bytes, offset)?;
    journal.write_all_at(&bytes, offset)?;
    journal.sync_data()
}

fn write(journal: &File, offset: u64, bytes: &[u8]) -> Result<()> {
    journal.write_all_at(bytes, offset).map_err(|error| {
        if let Err(error) = journal.set_len(offset) {
            // A batch cut short is damage to whoever reads it; the next writer removes it.
            tracing::warn!(%error, "an unfinished append could not be cut off yet");
        }
        fault::of_io(error, "append to the journal")
    })
}

/// A lack of space found out late is still only that, once the batch is certainly gone from the disk.
fn not_synced(journal: &File, offset: u64, error: io::Error) -> Error {
    let is_gone = journal.set_len(offset).and_then(|()| journal.sync_data()).is_ok();
    match Kind::of_io(&error) {
        Kind::Full if is_gone => fault::of_io(error, "append to the journal"),
        _ => fault::in_doubt(error, "make the commit durable"),
    }
}

/// On a mount that only pretends to lock, another machine may have written to the same place.
fn check_ours(site: Site<'_>, journal: &File, head: &Head, nonce: Nonce) -> Result<()> {
    let is_ours = match site.reach {
        Reach::Host => shows(journal, site.held.marker(), head, nonce)?,
        // From the server: what this machine remembers of its own writing proves nothing.
        Reach::Network => match (site.dir.find(&journal::name(head.generation))?, site.dir.find(MARKER)?) {
            (Some(journal), Some(marker)) => {
                let failed = |error| fault::in_doubt(error, "look again at what was appended");
                drop_cached(&journal).map_err(failed)?;
                // This one is locked already; what was read of it can be dropped all the same.
                fadvise(&marker, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
                shows(&journal, &marker, head, nonce)?
            }
            _ => false,
        },
    };
    if is_ours {
        return Ok(());
    }
    Err(Error::new(Kind::Unknown, "append to the journal: somebody else has written to it at the same time")
        .hint("The file system does not keep its locks: mount it with NFS 4 and without nolock, or use a database."))
}

fn shows(journal: &File, marker: &File, head: &Head, nonce: Nonce) -> Result<bool> {
    let mut bytes = [0; HEADER_BYTES];
    let read = journal.read_exact_at(&mut bytes, head.length);
    read.map_err(|error| fault::in_doubt(error, "look again at what was appended"))?;
    Ok(nonce_of(&bytes) == Some(nonce) && Head::read_existing(marker)? == *head)
}
