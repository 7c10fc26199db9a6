//! How processes of one machine tell each other that something was committed, or that one of them died.
//!
//! Every process has a bell in a folder they share: a small file that it writes to after each commit. The
//! kernel tells the others (inotify), so nobody polls. It also tells when the file by which a session shows
//! its presence is closed, as it is when its process is killed. What was committed, and who is gone,
//! is for the store to find out: a ring only says that it is time to look.
//!
//! | file | what it is |
//! | --- | --- |
//! | `bells/<pid>-<n>` | the bell of one process; those of the dead are cleared away by the next to come |
//! | `live/<session>` | see [`crate::presence`] |
//!
//! Where the kernel can't tell (a network file system, no inotify instance left) the files are looked at
//! again and again; [`Doorbell::push`] says so. A kernel that had no instance left is asked for one now and then.

mod bell;
mod ears;
mod eyes;
mod stop;

use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use crate::error::{Error, Kind, Result};
use crate::info::Push;
use crate::mount;
use crate::presence::{KernelLocks, unusable};

use bell::Bell;
use ears::Ears;
use eyes::{Asking, Eyes};
use stop::Stop;

/// How often the files are looked at where the kernel can't tell. A waiter notices a free lock this
/// much later at the worst; four looks a second cost nothing.
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Looks after which a kernel that had no inotify instance left is asked again: every minute. Programs that end give theirs
/// back, and asking costs less than a look.
const LOOKS_BETWEEN_ASKING: u32 = 240;

const _: () = assert!(LOOKS_BETWEEN_ASKING as u128 * POLL_INTERVAL.as_millis() == 60_000);

/// What was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ring {
    /// Another process has committed.
    Changed,
    /// A process that held a session's presence lock has let go of it.
    Died,
}

/// The bell of this process, and the thread that listens to those of the others. Dropped, it takes its
/// bell down and ends the thread.
pub struct Doorbell {
    bell: Arc<Bell>,
    push: Push,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Doorbell {
    /// Hangs up a bell in `folder` (created for this user alone if missing) and listens from now on:
    /// pushed by the kernel where it can, looking every [`POLL_INTERVAL`] where it can't.
    ///
    /// `on_ring` runs on the listening thread. It must not wait, and must not own this doorbell.
    /// Many rings may come as one, and one may come for no reason; none is lost. Rings of this process
    /// are not reported.
    ///
    /// # Errors
    /// If the folder or the bell can't be created, or the system has no thread to give.
    pub fn open(folder: &Path, on_ring: impl Fn(Ring) + Send + Sync + 'static) -> Result<Self> {
        let place = Place::open(folder)?;
        let warn = |reason: String| {
            tracing::warn!(folder = %folder.display(), reason, "changes are looked for, not pushed");
        };
        match mount::network(folder) {
            Ok(None) => match Ears::open(&place) {
                Ok(ears) => place.listen(Push::Push, move |stop| ears.listen(stop, &on_ring)),
                Err(error) => {
                    warn(error.to_string());
                    place.look_for_now(on_ring)
                }
            },
            Ok(Some(kind)) => {
                warn(format!("no file events on {kind}"));
                place.look(POLL_INTERVAL, on_ring)
            }
            Err(error) => {
                warn(error.to_string());
                place.look(POLL_INTERVAL, on_ring)
            }
        }
    }

    /// As [`Doorbell::open`], but looks at the files every `interval` without asking the kernel to tell.
    ///
    /// # Errors
    /// If the folder or the bell can't be created, or the system has no thread to give.
    pub fn polling(
        folder: &Path,
        interval: Duration,
        on_ring: impl Fn(Ring) + Send + Sync + 'static,
    ) -> Result<Self> {
        Place::open(folder)?.look(interval, on_ring)
    }

    /// Tells the other processes that something was committed. Called once it is visible to them: who
    /// is woken earlier looks in vain and sleeps again.
    pub fn ring(&self) {
        let rung = match self.push {
            Push::Push => self.bell.ring(),
            Push::Poll { .. } => self.bell.ring_and_flush(),
        };
        if let Err(error) = rung {
            tracing::warn!(%error, "the other processes could not be told of a change");
        }
    }

    /// How rings arrive, at the worst: one that looks may be told sooner later on.
    pub fn push(&self) -> Push {
        self.push
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in `on_ring` was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("bell", &self.bell.name()).field("push", &self.push).finish()
    }
}

/// A folder with this process's bell in it, before anybody listens.
#[derive(Clone)]
struct Place {
    bell: Arc<Bell>,
    presence: Arc<KernelLocks>,
}

impl Place {
    fn open(folder: &Path) -> Result<Self> {
        let presence = Arc::new(KernelLocks::open(folder)?);
        let bell = Bell::hang(folder).map_err(|error| unusable(folder, error))?;
        Ok(Self { bell: Arc::new(bell), presence })
    }

    /// Looks, until the kernel can tell.
    fn look_for_now(self, on_ring: impl Fn(Ring) + Send + Sync + 'static) -> Result<Doorbell> {
        let interval_ms = u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let (eyes, place) = (Eyes::open(&self), self.clone());
        self.listen(Push::Poll { interval_ms }, move |stop| {
            let ask = Asking { looks_between: LOOKS_BETWEEN_ASKING, ask: &|| Ears::open(&place) };
            if let Some(ears) = eyes.look_until_told(stop, POLL_INTERVAL, &on_ring, ask) {
                tracing::info!(folder = %place.bell.folder().display(), "changes are pushed again");
                ears.listen(stop, &on_ring);
            }
        })
    }

    fn look(self, interval: Duration, on_ring: impl Fn(Ring) + Send + Sync + 'static) -> Result<Doorbell> {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let eyes = Eyes::open(&self);
        self.listen(Push::Poll { interval_ms }, move |stop| eyes.look(stop, interval, &on_ring))
    }

    fn listen(self, push: Push, body: impl FnOnce(&Stop) + Send + 'static) -> Result<Doorbell> {
        let start = || -> io::Result<_> {
            let stop = Arc::new(Stop::new()?);
            let heard = Arc::clone(&stop);
            let thread = Builder::new().name("bell-doorbell".to_owned()).spawn(move || body(&heard))?;
            Ok((stop, thread))
        };
        let (stop, thread) = start().map_err(|error| {
            Error::new(Kind::Unavailable, "start listening for changes")
                .hint("Raise the limits on threads and open files (ulimit -u, ulimit -n).")
                .because(error)
        })?;
        Ok(Doorbell { bell: self.bell, push, stop, thread: Some(thread) })
    }
}
