//! Beginning a new journal when the old one is mostly history. Always under the lock.
//!
//! The next journal gets everything that is live, is synced, and then the head goes over to it. Until that moment the
//! old one counts, and a crash leaves behind no more than a file that nobody reads and the next
//! compaction overwrites. Readers that have the old file open lose nothing: its bytes stay as long as it is open.

use std::io::{self, Write};
use std::mem;

use bell_store::Result;

use crate::append::{Nonces, Site};
use crate::batch::{Batch, Change, Nonce, put_bytes};
use crate::dir::{Dir, Opening};
use crate::fault;
use crate::head::Head;
use crate::image::Image;
use crate::journal::{self, Start};
use crate::lock::Held;

/// A journal below this size is not worth the work: it is read in milliseconds.
const MIN_BYTES: u64 = 1 << 20;

/// How many times larger than its live records a journal may grow. Rewriting costs a fourth of what was
/// written since, and a folder takes five times its records at the most.
const MAX_RATIO: u64 = 4;

/// Bytes in one batch of a new journal, about: it is read back batch by batch.
const CHUNK_BYTES: u64 = 4 << 20;

/// Whether a journal of this length is mostly history.
pub(crate) fn is_due(length: u64, image: &Image) -> bool {
    length > MIN_BYTES && length > MAX_RATIO * image.live_bytes()
}

/// The contents of a new journal.
pub(crate) struct Fresh {
    bytes: Vec<u8>,
    nonce: Nonce,
}

impl Fresh {
    /// Everything that is live, for the journal after this head. It takes as much memory as the records do; in
    /// return nobody who reads has to wait for the disk.
    pub(crate) fn of(image: &Image, head: &Head, nonces: &mut Nonces) -> Self {
        let (before, after, now) = (image.revision, image.revision, image.now);
        let mut bytes = Start { generation: head.generation + 1, revision: before, now }.encode();
        let mut nonce = Nonce::default();
        for changes in chunks(image) {
            nonce = nonces.next();
            bytes.extend_from_slice(&Batch { nonce, before, after, now, changes }.encode());
        }
        Self { bytes, nonce }
    }

    /// Writes it as the next journal and goes over to that. Answers with the new head.
    ///
    /// # Errors
    /// Those of writing; the old journal is live then, as before.
    pub(crate) fn begin(&self, site: Site<'_>, head: &Head) -> Result<Head> {
        let generation = head.generation + 1;
        let begun = self.write(site, head, generation);
        match &begun {
            Ok(_) => remove_others(site.dir, generation),
            // It takes space that is perhaps missing. If this fails too, the next compaction overwrites it.
            Err(_) => drop(site.dir.remove(&journal::name(generation))),
        }
        begun
    }

    fn write(&self, site: Site<'_>, head: &Head, generation: u64) -> Result<Head> {
        let mut file = site.dir.file(&journal::name(generation), Opening::Empty)?;
        let length = self.bytes.len() as u64;
        let next = Head { sequence: head.sequence + 1, generation, length, nonce: self.nonce, ..*head };
        let mut write = || {
            file.write_all(&self.bytes)?;
            file.sync_all()?;
            site.dir.sync()?;
            switch(site.held, head, &next)
        };
        write().map_err(|error| fault::of_io(error, "begin a new journal"))?;
        Ok(next)
    }
}

fn chunks(image: &Image) -> impl Iterator<Item = Vec<Change>> {
    let mut records = image.records();
    let mut chunk: Vec<Change> = image.epoch.clone().map(Change::Epoch).into_iter().collect();
    std::iter::from_fn(move || {
        let mut size = 0;
        while size < CHUNK_BYTES {
            let Some((name, record)) = records.next() else { break };
            size += put_bytes(name, &record.value);
            chunk.push(Change::Put(name.clone(), record.clone()));
        }
        Some(mem::take(&mut chunk)).filter(|chunk| !chunk.is_empty())
    })
}

/// The head must be on the disk before anything is appended to the new journal or the old one goes.
fn switch(held: &Held<'_>, head: &Head, next: &Head) -> io::Result<()> {
    let switched = next.write(held.marker()).and_then(|()| held.marker().sync_data());
    if switched.is_err() {
        let back = Head { sequence: next.sequence + 1, ..*head };
        if let Err(error) = back.write(held.marker()).and_then(|()| held.marker().sync_data()) {
            tracing::error!(%error, "the head of the store could not be written back; check the disk");
        }
    }
    switched
}

fn remove_others(dir: &Dir, live: u64) {
    let names = dir.names().unwrap_or_default();
    for name in names.iter().filter(|name| journal::generation_of(name).is_some_and(|other| other != live)) {
        if let Err(error) = dir.remove(name) {
            tracing::warn!(%error, name, "an old journal could not be removed");
        }
    }
}
