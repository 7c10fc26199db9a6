//! The writing thread: takes every waiting transaction into one append with one sync.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bell_store::hub::Hub;
use bell_store::txn::{Outcome, Txn, Write};
use bell_store::{Result, clock};
use tokio::sync::oneshot;

use crate::append::{Nonces, Site, append, recover};
use crate::compact::{Fresh, is_due};
use crate::dir::Dir;
use crate::draft::Draft;
use crate::fault;
use crate::head::Head;
use crate::lock::Lock;
use crate::timekeeper::Timekeeper;
use crate::view::{News, Reach, View, names_of};

/// Bytes of values in one append, about; a single larger transaction is appended alone. Beyond this, callers wait
/// for the disk and not for each other's syncs.
const MAX_APPEND_BYTES: usize = 16 << 20;

/// How much a journal grows before a compaction that failed is tried again.
const COMPACT_AGAIN_BYTES: u64 = 1 << 20;

/// What the threads of one opened folder share.
pub(crate) struct Shared {
    /// The folder.
    pub(crate) dir: Arc<Dir>,
    /// Between whom it is shared.
    pub(crate) reach: Reach,
    /// What is stored, as far as this process knows.
    pub(crate) view: Mutex<View>,
    /// The store's clock.
    pub(crate) clock: Timekeeper,
    /// Those who wait for a change.
    pub(crate) hub: Arc<Hub>,
}

impl Shared {
    /// The view, for a moment: nobody waits for a disk while holding it, but for reading.
    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes those who wait for what was found to have changed.
    pub(crate) fn tell(&self, news: &News) {
        match news {
            News::Names(names) if names.is_empty() => {}
            News::Names(names) => self.hub.committed(names),
            News::Everything => self.hub.look(),
        }
    }
}

/// A transaction on its way to the writing thread.
pub(crate) struct Job {
    txn: Txn,
    handed_in: Duration,
    reply: oneshot::Sender<Result<Outcome>>,
}

impl Job {
    /// A job, and where its answer arrives.
    pub(crate) fn new(txn: Txn) -> (Self, oneshot::Receiver<Result<Outcome>>) {
        let (reply, answer) = oneshot::channel();
        (Self { txn, handed_in: clock::boottime(), reply }, answer)
    }

    fn bytes(&self) -> usize {
        let value_bytes = |write: &Write| if let Write::Put(value, _) = write { value.len() } else { 0 };
        self.txn.writes.iter().map(|(name, write)| name.as_str().len() + value_bytes(write)).sum()
    }
}

/// What the writing thread works with.
pub(crate) struct Writer<Ring> {
    shared: Arc<Shared>,
    lock: Lock,
    nonces: Nonces,
    /// Tells the other processes of this machine.
    ring: Ring,
    compact_above: u64,
}

impl<Ring: Fn()> Writer<Ring> {
    /// A writer that calls `ring` after each commit.
    pub(crate) fn new(shared: Arc<Shared>, lock: Lock, nonces: Nonces, ring: Ring) -> Self {
        Self { shared, lock, nonces, ring, compact_above: 0 }
    }

    /// Commits what waits, each transaction on its own, in order.
    pub(crate) fn commit_all(&mut self, jobs: Vec<Job>) {
        let mut jobs = jobs.into_iter().peekable();
        while let Some(first) = jobs.next() {
            let mut bytes = first.bytes();
            let mut group = vec![first];
            while let Some(job) = jobs.next_if(|job| bytes + job.bytes() <= MAX_APPEND_BYTES) {
                bytes += job.bytes();
                group.push(job);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, jobs: Vec<Job>) {
        let (txns, replies): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| ((job.txn, job.handed_in), job.reply)).unzip();
        // A reply that can't be sent is one that nobody waits for any more.
        match self.commit_locked(txns) {
            Ok((outcomes, head)) => {
                let answers = replies.into_iter().zip(outcomes);
                answers.for_each(|(reply, outcome)| drop(reply.send(Ok(outcome))));
                self.compact_if_due(&head);
            }
            Err(error) => {
                // What is in doubt is read from the disk again.
                self.shared.view().forget();
                replies.into_iter().for_each(|reply| drop(reply.send(Err(fault::again(&error)))));
            }
        }
    }

    fn commit_locked(&mut self, txns: Vec<(Txn, Duration)>) -> Result<(Vec<Outcome>, Head)> {
        let shared = &*self.shared;
        let held = self.lock.alone()?;
        let site = Site { held: &held, dir: &shared.dir, reach: shared.reach };
        let written = write(shared, site, &mut self.nonces, txns)?;
        (self.ring)();
        Ok(written)
    }

    /// After the answers: nobody has to wait for it.
    fn compact_if_due(&mut self, head: &Head) {
        let is_due = head.length > self.compact_above && is_due(head.length, self.shared.view().image());
        if !is_due {
            return;
        }
        match self.compact() {
            Ok(next) => {
                self.compact_above = 0;
                tracing::info!(generation = next.generation, bytes = next.length, "a new journal was begun");
            }
            Err(error) => {
                self.compact_above = head.length + COMPACT_AGAIN_BYTES;
                tracing::warn!(%error, "the journal could not be compacted");
            }
        }
    }

    fn compact(&mut self) -> Result<Head> {
        let shared = &*self.shared;
        let held = self.lock.alone()?;
        let site = Site { held: &held, dir: &shared.dir, reach: shared.reach };
        let mut view = shared.view();
        let head = catch_up(shared, site, &mut view)?;
        if !is_due(head.length, view.image()) {
            // Another process was faster.
            return Ok(head);
        }
        let fresh = Fresh::of(view.image(), &head, &mut self.nonces);
        drop(view);
        let next = fresh.begin(site, &head)?;
        shared.view().move_to(&next)?;
        Ok(next)
    }
}

impl<Ring> Drop for Writer<Ring> {
    /// After an orderly end also the head is on the disk, so that damage is told from an unfinished append.
    fn drop(&mut self) {
        let synced = self.lock.marker().map(|marker| marker.sync_data());
        if let Ok(Err(error)) = synced {
            tracing::warn!(%error, "the head of the store could not be synced");
        }
    }
}

/// Decides and appends. Answers with what became of each transaction.
fn write(
    shared: &Shared,
    site: Site<'_>,
    nonces: &mut Nonces,
    txns: Vec<(Txn, Duration)>,
) -> Result<(Vec<Outcome>, Head)> {
    let (outcomes, batch, head, journal) = {
        let mut view = shared.view();
        let head = catch_up(shared, site, &mut view)?;
        let journal = view.journal(&head)?;
        let mut draft = Draft::new(view.image(), shared.clock.now(view.image())?);
        let elapsed = clock::boottime();
        let decide = |(txn, handed_in): (Txn, Duration)| draft.decide(txn, elapsed.saturating_sub(handed_in));
        let outcomes = txns.into_iter().map(decide).collect();
        (outcomes, draft.into_batch(nonces.next()), head, journal)
    };
    let Some(batch) = batch else { return Ok((outcomes, head)) };
    let names = names_of(&batch);
    let head = append(site, &journal, &head, &batch)?;
    shared.view().take_in(batch, &head);
    shared.hub.committed(&names);
    Ok((outcomes, head))
}

/// Takes in what others have done. Answers with the head.
fn catch_up(shared: &Shared, site: Site<'_>, view: &mut View) -> Result<Head> {
    let head = Head::read_existing(site.held.marker())?;
    shared.tell(&view.follow(&head)?);
    recover(site, view, &head)
}
