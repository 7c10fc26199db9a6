//! Noticing that a project changed (S10), and loading it again.
//!
//! The kernel tells about changes in the project's folder, in `agents/` and in each folder that is or may become
//! an agent; nothing deeper, so a large tree beside them costs nothing. File systems that tell nothing
//! (NFS and its like), and machines that have run out of watches, are looked at every few seconds instead, the less
//! often the more there is to look at. A machine that has run out is asked again now and then.
//!
//! Changes are gathered until they pause, loaded, and handed on if something is different. A thread of its own
//! does this; it ends when the [`Watch`] is dropped.

mod looking;
mod places;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::folder::Folder;
use crate::load::{Diff, Loaded};
use crate::newcomers::Newcomers;
use looking::{Looker, is_told_of_changes};
use places::Places;

/// Changes are one change if less than this lies between them…
const PAUSE: Duration = Duration::from_millis(40);
/// …and as long as there are no more than so many pauses without rest: whoever writes all the time is read too.
const PAUSES_MAX: u32 = 5;
/// How often a file system that tells nothing is looked at, at the most.
pub const POLL_EVERY: Duration = Duration::from_secs(2);

/// How much later a machine that had no watch left is asked again. Programs that end give theirs back, and to ask costs about
/// what a look costs.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What the kernel tells of has been read by then, also on a machine that is busy.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// Together they stay within the second that a change may take to show.
const _: () = assert!(PAUSE.as_millis() * (PAUSES_MAX as u128) <= 200);
/// Most of what is done is looking, not asking.
const _: () = assert!(ASK_AGAIN_AFTER.as_millis() >= 10 * POLL_EVERY.as_millis());

/// A project that is loaded again.
#[derive(Clone, Debug)]
pub struct Change {
    /// How it is now.
    pub loaded: Arc<Loaded>,
    /// What is different.
    pub diff: Diff,
}

/// How changes are noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// By the kernel where it can, else by looking every [`POLL_EVERY`] until it can.
    Automatic,
    /// By looking this often, or less often where it costs too much.
    Polling(Duration),
}

/// Notices changes until it is dropped.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    nudge: Nudge,
    thread: Option<JoinHandle<()>>,
}

/// Has the project read again though nothing is known to have changed. Cheap to clone.
#[derive(Clone)]
pub struct Nudge {
    wake: SyncSender<()>,
    /// Those who wait for the next reading.
    waiting: Arc<Mutex<Vec<Sender<()>>>>,
}

impl Nudge {
    /// Returns when the project has been read again, as it is now or later; false if that took longer than `limit`.
    pub fn and_wait(&self, limit: Duration) -> bool {
        let (sender, read) = channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        // A full channel wakes the thread as well.
        let _ = self.wake.try_send(());
        read.recv_timeout(limit).is_ok()
    }

    fn is_wanted(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take(&self) -> Vec<Sender<()>> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watch {
    /// Watches a project. `first` is how it was loaded; what has changed since is noticed too. `on_change` is called
    /// on the watching thread, and so is `may_be_of_runs`: whether runs that may not define the fleet were under way at any time
    /// in so long a time before now.
    pub fn start(
        folder: Folder,
        first: Arc<Loaded>,
        notice: Notice,
        may_be_of_runs: impl Fn(Duration) -> bool + Send + 'static,
        on_change: impl FnMut(Change) + Send + 'static,
    ) -> io::Result<Self> {
        // One wake-up that nobody has taken yet stands for any number of them.
        let (wake, woken) = sync_channel(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let notice = match notice {
            Notice::Automatic if !is_told_of_changes(&folder) => Notice::Polling(POLL_EVERY),
            notice => notice,
        };
        let make_places: Option<MakePlaces> = (notice == Notice::Automatic).then_some(Places::new);
        let nudge = Nudge { wake, waiting: Arc::default() };
        let watcher = Watcher {
            folder,
            last: first,
            notice,
            make_places,
            rested: Duration::ZERO,
            looked_every: Duration::ZERO,
            is_over: Arc::clone(&is_over),
            woken,
            nudge: nudge.clone(),
            may_be_of_runs,
            on_change,
        };
        let thread =
            std::thread::Builder::new().name("bell-watch".to_owned()).spawn(move || watcher.run())?;
        Ok(Self { is_over, nudge, thread: Some(thread) })
    }

    /// For whoever wants the project to be read again.
    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // A full channel wakes the thread as well.
        let _ = self.nudge.wake.try_send(());
        if let Some(thread) = self.thread.take() {
            // It panicked only if on_change did, and then somebody has been told.
            let _ = thread.join();
        }
    }
}

/// Has the kernel tell of changes below a path; none if it can't now.
type MakePlaces = fn(&Path, SyncSender<()>) -> Option<Places>;

struct Watcher<R, F> {
    folder: Folder,
    last: Arc<Loaded>,
    /// How changes are noticed at present.
    notice: Notice,
    /// None if the kernel is not to be asked at all.
    make_places: Option<MakePlaces>,
    /// How long it was rested between looks since the kernel was asked.
    rested: Duration,
    /// How long it was rested before the latest look.
    looked_every: Duration,
    is_over: Arc<AtomicBool>,
    woken: Receiver<()>,
    nudge: Nudge,
    may_be_of_runs: R,
    on_change: F,
}

impl<R: Fn(Duration) -> bool, F: FnMut(Change)> Watcher<R, F> {
    fn run(mut self) {
        let mut places = self.places();
        if self.notice == Notice::Automatic && places.is_none() {
            self.poll_from_now_on("no watch could be made");
        }
        let mut looker = None;
        loop {
            // Places first: what changes after it is told, and what changed before it is loaded.
            self.keep_places(&mut places);
            match self.notice {
                Notice::Automatic => looker = None,
                Notice::Polling(_) => {
                    looker.get_or_insert_with(|| Looker::new(&self.folder));
                }
            }
            // Taken before reading: who comes later gets a reading of its own.
            let waiting = self.nudge.take();
            self.load(&waiting);
            for waiting in waiting {
                // Whoever has given up is not told.
                let _ = waiting.send(());
            }
            if !self.wait(&mut places, looker.as_mut()) {
                return;
            }
        }
    }

    /// Waits for a change, and for it to settle. Answers whether to go on.
    fn wait(&mut self, places: &mut Option<Places>, looker: Option<&mut Looker>) -> bool {
        match (self.notice, looker) {
            (Notice::Polling(every), Some(looker)) => loop {
                let rest = looker.rest(every);
                self.looked_every = rest;
                let woken = self.woken.recv_timeout(rest);
                if self.is_over() || matches!(woken, Err(RecvTimeoutError::Disconnected)) {
                    return false;
                }
                self.rested += rest;
                if looker.has_changed(&self.folder) || self.nudge.is_wanted() || self.is_told_again(places) {
                    break;
                }
            },
            _ => {
                if self.woken.recv().is_err() {
                    return false;
                }
            }
        }
        for _ in 0..PAUSES_MAX {
            if self.is_over() || self.woken.recv_timeout(PAUSE).is_err() {
                break;
            }
        }
        !self.is_over()
    }

    /// How long ago what is new now can have come to be.
    fn unseen(&self) -> Duration {
        match self.notice {
            Notice::Automatic => NOTICED_WITHIN,
            Notice::Polling(every) => NOTICED_WITHIN.max(self.looked_every.max(every) * 2),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn places(&self) -> Option<Places> {
        self.make_places.and_then(|make| make(self.folder.path(), self.nudge.wake.clone()))
    }

    fn keep_places(&mut self, places: &mut Option<Places>) {
        let Some(kept) = places else { return };
        if let Err(error) = kept.keep(&self.folder) {
            *places = None;
            self.poll_from_now_on(&error.to_string());
        }
    }

    /// Asks the kernel again if it is time to. Answers whether it tells of changes from now on.
    fn is_told_again(&mut self, places: &mut Option<Places>) -> bool {
        if self.rested < ASK_AGAIN_AFTER {
            return false;
        }
        self.rested = Duration::ZERO;
        // With all of its folders, before anything is given up: a machine may have an instance left and no watches.
        let Some(again) =
            self.places().and_then(|mut again| again.keep(&self.folder).is_ok().then_some(again))
        else {
            return false;
        };
        tracing::info!("changes are told by the kernel again");
        *places = Some(again);
        self.notice = Notice::Automatic;
        true
    }

    fn poll_from_now_on(&mut self, why: &str) {
        tracing::warn!(why, every_ms = POLL_EVERY.as_millis(), "changes are looked for from now on");
        self.notice = Notice::Polling(POLL_EVERY);
        self.rested = Duration::ZERO;
    }

    /// Loads the project again. Who waits for that is an operator.
    fn load(&mut self, waiting: &[Sender<()>]) {
        let newcomers = if waiting.is_empty() { Newcomers::Taken } else { Newcomers::Accepted };
        let mut loaded = self.last.reload(&self.folder, newcomers);
        let has_more = loaded.definitions.are_more_than(&self.last.definitions);
        if newcomers == Newcomers::Taken && has_more && (self.may_be_of_runs)(self.unseen()) {
            loaded = self.last.reload(&self.folder, Newcomers::HeldBack);
        }
        let diff = loaded.since(&self.last);
        if diff.is_empty() {
            return;
        }
        self.last = Arc::new(loaded);
        (self.on_change)(Change { loaded: Arc::clone(&self.last), diff });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine without a watch left.
    const NONE_LEFT: Option<MakePlaces> = Some(|_, _| None);
    /// Long enough for a machine under any load: only a test that fails waits this long.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// One that had to look.
    fn looking(
        make_places: Option<MakePlaces>,
    ) -> (tempfile::TempDir, Watcher<impl Fn(Duration) -> bool, impl FnMut(Change)>) {
        let project = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(project.path().join("agents/a")).unwrap();
        let folder = Folder::open(project.path()).unwrap();
        let (wake, woken) = sync_channel(1);
        let watcher = Watcher {
            last: Arc::new(Loaded::load(&folder)),
            folder,
            notice: Notice::Polling(POLL_EVERY),
            make_places,
            rested: Duration::ZERO,
            looked_every: Duration::ZERO,
            is_over: Arc::default(),
            woken,
            nudge: Nudge { wake, waiting: Arc::default() },
            may_be_of_runs: |_| false,
            on_change: |_| {},
        };
        (project, watcher)
    }

    #[test]
    fn a_machine_that_had_no_watch_left_is_asked_again_after_a_while_and_tells_from_then_on() {
        let (project, mut watcher) = looking(NONE_LEFT);
        let mut places = None;
        watcher.rested = ASK_AGAIN_AFTER;
        assert!(!watcher.is_told_again(&mut places), "there is still none");
        watcher.make_places = Some(Places::new);
        assert!(!watcher.is_told_again(&mut places), "it was asked a moment ago");

        watcher.rested = ASK_AGAIN_AFTER - POLL_EVERY;
        let mut looker = Looker::new(&watcher.folder);
        // Somebody wakes it, so that the test need not rest.
        watcher.nudge.wake.try_send(()).unwrap();
        assert!(watcher.wait(&mut places, Some(&mut looker)), "it goes on");
        assert_eq!(watcher.notice, Notice::Automatic);
        std::fs::write(project.path().join("agents/a/SKILL.md"), "new").unwrap();
        watcher.woken.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn where_looking_was_chosen_nobody_is_asked() {
        let (_project, mut watcher) = looking(None);
        watcher.rested = ASK_AGAIN_AFTER;
        assert!(!watcher.is_told_again(&mut None));
        assert_eq!(watcher.notice, Notice::Polling(POLL_EVERY));
    }
}
