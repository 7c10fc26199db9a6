//! A worker: claims items by moving them into its own folder.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bell_store::clock;

use super::FolderQueue;
use super::claim::{Claim, Held};
use super::order::{Order, sorted};
use super::place::Place;
use super::record::{Pulse, Registered};
use crate::dir::Dir;
use crate::error::{Error, Kind, Result, errno, is_in_doubt, is_not_there};
use crate::name::{ItemName, check_worker};
use crate::process::{Process, host, nonce};

/// How often a worker shows that it lives. A janitor that waits a minute sees twelve beats.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Names that a worker takes from the order at once, at the most: what it does not come to, others find late.
const MAX_BATCH: usize = 64;
/// Whoever comes back for names within this time takes more of them.
const BUSY: Duration = Duration::from_secs(1);

/// Somebody who claims items. Dropped, it leaves the queue; what it has claimed stays claimed.
#[derive(Debug)]
pub struct Worker {
    place: Arc<Place>,
    name: String,
    folder: Dir,
    record: Registered,
    order: Order,
    batch: VecDeque<ItemName>,
    batch_size: usize,
    refilled: Duration,
    held: Held,
    /// A claim had no clear answer: something may have arrived unnoticed.
    in_doubt: bool,
    _heart: Option<Heart>,
}

impl Worker {
    pub(super) fn begin(place: Arc<Place>, name: Option<&str>, pulse: Pulse) -> Result<Self> {
        let process = (pulse == Pulse::Beating).then(Process::this).flatten();
        Self::begin_for(place, name, process, pulse)
    }

    fn begin_for(
        place: Arc<Place>,
        name: Option<&str>,
        process: Option<Process>,
        pulse: Pulse,
    ) -> Result<Self> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => format!("{}-{}-{}", host(), std::process::id(), nonce()),
        };
        check_worker(&name)?;
        let record = Registered::take(&place.workers, &name, process, pulse)?;
        let folder = place.claimed.ensure(&name).map_err(place.claimed.fault("make the folder", &name))?;
        let found = folder.entries().map_err(folder.fault("list", ""))?;
        let held = found.iter().filter_map(|entry| ItemName::found(&entry.name)).collect();
        let heart = (pulse == Pulse::Beating).then(|| Heart::start(place.claimed.clone(), name.clone()));
        Ok(Self {
            order: Order::open(Arc::clone(&place))?,
            batch: VecDeque::new(),
            batch_size: 1,
            refilled: Duration::ZERO,
            held: Arc::new(Mutex::new(held)),
            in_doubt: false,
            _heart: heart,
            place,
            name,
            folder,
            record,
        })
    }

    /// Its name, which is that of its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Claims the oldest item that waits, or `None` if nothing does. Never waits for anybody.
    ///
    /// # Errors
    /// [`Kind::Unknown`] if the file system gave no clear answer: what did arrive is found by the next claim.
    pub fn claim(&mut self) -> Result<Option<Claim>> {
        if self.in_doubt
            && let Some(claim) = self.adopt()?
        {
            return Ok(Some(claim));
        }
        let (mut missed, mut in_vain) = (HashSet::new(), 0);
        loop {
            while let Some(name) = self.batch.pop_front() {
                if let Some(claim) = self.attempt(&name)? {
                    return Ok(Some(claim));
                }
                missed.insert(name);
            }
            self.refill()?;
            let is_new = self.batch.iter().any(|name| !missed.contains(name));
            in_vain = if is_new { 0 } else { in_vain + 1 };
            // One refill may begin a new list with names that were just missed; the second reads on behind them.
            if self.batch.is_empty() || in_vain == 2 {
                return Ok(None);
            }
        }
    }

    /// Claims the oldest item whose name `fits`. It lists the whole folder.
    ///
    /// # Errors
    /// As [`Worker::claim`].
    pub fn claim_where(&mut self, fits: impl Fn(&ItemName) -> bool) -> Result<Option<Claim>> {
        let waiting = &self.place.waiting;
        let names = sorted(waiting).map_err(waiting.fault("list", ""))?;
        for name in names.iter().filter(|name| fits(name)) {
            if let Some(claim) = self.attempt(name)? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    /// Shows that the worker lives, for one that does not beat by itself.
    ///
    /// # Errors
    /// Those of touching its folder.
    pub fn beat(&self) -> Result<()> {
        self.place.claimed.touch_name(&self.name).map_err(self.folder.fault("touch", ""))
    }

    fn refill(&mut self) -> Result<()> {
        let now = clock::boottime();
        let is_busy = now.saturating_sub(self.refilled) < BUSY;
        self.batch_size = if is_busy { (self.batch_size * 2).min(MAX_BATCH) } else { 1 };
        self.refilled = now;
        self.batch = self.order.take(self.batch_size)?.into();
        Ok(())
    }

    /// `None`: somebody else has it.
    fn attempt(&mut self, name: &ItemName) -> Result<Option<Claim>> {
        let is_ours = match self.place.move_free(&self.place.waiting, name, &self.folder, name) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) if is_not_there(&error) => self.answer_to_not_found(name)?,
            Err(error) if is_in_doubt(&error) => {
                self.in_doubt = true;
                if !self.has_arrived(name).unwrap_or(false) {
                    return Err(self.place.waiting.fault("claim", name)(error));
                }
                true
            }
            Err(error) if errno(&error) == Some(rustix::io::Errno::XDEV) => {
                return Err(self.place.waiting.fault("claim", name)(error)
                    .hint("Keep all folders of a queue on one file system and in one mount."));
            }
            Err(error) => return Err(self.place.waiting.fault("claim", name)(error)),
        };
        if is_ours { self.keep(name) } else { Ok(None) }
    }

    /// Gone: taken by somebody else, or by us with the reply lost, or our own folder is no more.
    fn answer_to_not_found(&mut self, name: &ItemName) -> Result<bool> {
        if !self.folder.is_gone() {
            return self.has_arrived(name).map_err(self.folder.fault("look at", name));
        }
        // A janitor took this worker for dead and removed its folder, which was empty: nothing has arrived in it.
        let made = self.place.claimed.ensure(&self.name);
        self.folder = made.map_err(self.place.claimed.fault("make the folder", &self.name))?;
        match self.place.move_free(&self.place.waiting, name, &self.folder, name) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.place.waiting.fault("claim", name)(error)),
        }
    }

    /// Whether an item that we did not have is in our folder, which nobody else moves things to: the rename
    /// reported a failure, and happened.
    fn has_arrived(&self, name: &ItemName) -> io::Result<bool> {
        // The folder first: what this machine remembers of it may be older than the lost reply.
        self.folder.look_at_self()?;
        let is_new = self.folder.look(name)?.is_some() && !self.holds(name);
        Ok(is_new && self.record.is_current(&self.place.workers, &self.name))
    }

    fn holds(&self, name: &ItemName) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn keep(&self, name: &ItemName) -> Result<Option<Claim>> {
        let seen = self.folder.look(name).map_err(self.folder.fault("look at", name))?;
        match seen {
            Some(seen) if seen.is_file() => {
                self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
                let (place, folder) = (Arc::clone(&self.place), self.folder.clone());
                Ok(Some(Claim::new(place, folder, &self.name, name.clone(), &seen, &self.held)))
            }
            Some(_) => {
                // A folder, a link or a pipe is nothing that can be worked on; nobody shall find it again.
                let place = &self.place;
                let moved = place.move_free(&self.folder, name, &place.failed, name);
                moved.map(|()| None).map_err(place.failed.fault("put aside", name))
            }
            // A janitor was faster: it takes us for dead.
            None => Ok(None),
        }
    }

    /// Takes up what arrived without an answer.
    fn adopt(&mut self) -> Result<Option<Claim>> {
        let entries = self.folder.entries().map_err(self.folder.fault("list", ""))?;
        let names = entries.iter().filter_map(|entry| ItemName::found(&entry.name));
        for name in names.filter(|name| !self.holds(name)) {
            if self.record.is_current(&self.place.workers, &self.name)
                && let Some(claim) = self.keep(&name)?
            {
                return Ok(Some(claim));
            }
        }
        self.in_doubt = false;
        Ok(None)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Not empty means that something is still claimed: then the folder and the record stay for the janitor.
        if self.place.claimed.remove_folder(&self.name).is_ok() {
            self.record.leave(&self.place.workers, &self.name);
        }
    }
}

impl FolderQueue {
    /// Begins to work on it for a process that goes on when this one has ended: a script that claims, works
    /// and says when it is done. With its number the janitor of its machine notices its end at once.
    ///
    /// # Errors
    /// As [`FolderQueue::worker`]; [`Kind::NotFound`] if there is no such process.
    pub fn worker_for(&self, name: Option<&str>, pid: Option<u32>) -> Result<Worker> {
        let process = match pid {
            None => None,
            Some(pid) => Some(Process::of(pid).ok_or_else(|| {
                Error::new(Kind::NotFound, format!("work for the process {pid}: there is none"))
                    .hint("Give the number of a process that lives for as long as the work takes, like $$.")
            })?),
        };
        Worker::begin_for(Arc::clone(&self.place), name, process, Pulse::Unattended)
    }
}

/// Touches a worker's folder until dropped.
#[derive(Debug)]
struct Heart {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn start(claimed: Dir, worker: String) -> Self {
        let (stop, stopped) = mpsc::channel();
        let beat = move || {
            loop {
                // A beat that is missed is made up for by the next; the janitor allows for many.
                // By its name: a folder that was removed and made again is another.
                let _ = claimed.touch_name(&worker);
                if stopped.recv_timeout(BEAT_EVERY) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        // Without a thread it is silent, and a janitor gives its items to others: slow, and still right.
        let thread = std::thread::Builder::new().name("bell-heart".to_owned()).spawn(beat).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It never panics, and ends at once.
            let _ = thread.join();
        }
    }
}
