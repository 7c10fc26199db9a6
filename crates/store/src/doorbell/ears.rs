//! Listening: the kernel tells (inotify).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::bell::Bell;
use super::stop::{Stop, Woken};
use super::{Place, Ring};
use crate::presence::{KernelLocks, Sight};

/// Looks at a closed presence file. The kernel tells of the close just before it lets go of the lock, so
/// the first look may come too early. Normally it is a matter of microseconds; a machine that
/// has not come round after all of these is told about anyway.
const LOOKS_AFTER: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(400),
];

/// Room for about a hundred events. More are read in a second go.
const BUFFER_BYTES: usize = 4_096;

/// What this process hears through.
pub(super) struct Ears {
    inotify: OwnedFd,
    bells: i32,
    live: i32,
    bell: Arc<Bell>,
    presence: Arc<KernelLocks>,
    /// Sessions whose file was closed while its lock was still seen held, and how often it was looked at.
    leaving: BTreeMap<String, usize>,
}

/// What came in one go.
#[derive(Default)]
struct Heard {
    changed: bool,
    closed: BTreeSet<String>,
    overflowed: bool,
    removed: bool,
}

impl Ears {
    pub(super) fn open(place: &Place) -> io::Result<Self> {
        let (bell, presence) = (Arc::clone(&place.bell), Arc::clone(&place.presence));
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let bells = inotify::add_watch(&inotify, bell.folder(), WatchFlags::MODIFY | WatchFlags::ONLYDIR)?;
        let live =
            inotify::add_watch(&inotify, presence.path(), WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR)?;
        Ok(Self { inotify, bells, live, bell, presence, leaving: BTreeMap::new() })
    }

    /// These may be leaving: their files may have been closed just before anybody listened, with the locks still seen held.
    pub(super) fn expecting(mut self, sessions: impl Iterator<Item = String>) -> Self {
        self.leaving.extend(sessions.map(|session| (session, 0)));
        self
    }

    pub(super) fn listen(mut self, stop: &Stop, on_ring: &dyn Fn(Ring)) {
        if let Err(error) = self.try_listen(stop, on_ring) {
            tracing::error!(%error, "this process no longer hears of changes by others; start it again");
        }
    }

    fn try_listen(&mut self, stop: &Stop, on_ring: &dyn Fn(Ring)) -> io::Result<()> {
        loop {
            let timeout = self.leaving.values().min().map(|looks| LOOKS_AFTER[*looks]);
            match stop.wait(Some(&self.inotify), timeout)? {
                Woken::Stopped => return Ok(()),
                Woken::Ready => self.heard(on_ring)?,
                Woken::TimedOut => self.count_looks(on_ring),
            }
            if self.see_off() {
                on_ring(Ring::Died);
            }
        }
    }

    fn heard(&mut self, on_ring: &dyn Fn(Ring)) -> io::Result<()> {
        let heard = self.read()?;
        self.leaving.extend(heard.closed.into_iter().map(|session| (session, 0)));
        if heard.overflowed {
            // Anybody may have left among the events that were lost.
            self.leaving.extend(self.presence.sessions()?.into_iter().map(|session| (session, 0)));
        }
        if heard.changed || heard.overflowed {
            on_ring(Ring::Changed);
        }
        if heard.removed {
            on_ring(Ring::Changed);
            return Err(io::Error::new(io::ErrorKind::NotFound, "the folder of the bells was removed"));
        }
        Ok(())
    }

    fn read(&self) -> io::Result<Heard> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut heard = Heard::default();
        loop {
            match events.next() {
                Ok(event) => self.note(&event, &mut heard),
                Err(Errno::WOULDBLOCK) => return Ok(heard),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&self, event: &inotify::Event<'_>, heard: &mut Heard) {
        let name = event.file_name().and_then(|name| name.to_str().ok());
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            heard.overflowed = true;
        } else if event.events().contains(ReadFlags::IGNORED) {
            heard.removed = true;
        } else if event.wd() == self.bells {
            heard.changed |= name != Some(self.bell.name());
        } else if event.wd() == self.live {
            heard.closed.extend(name.map(str::to_owned));
        }
    }

    /// Counts a look at those who are leaving; who was looked at often enough is told about all the same.
    fn count_looks(&mut self, on_ring: &dyn Fn(Ring)) {
        self.leaving.values_mut().for_each(|looks| *looks += 1);
        let before = self.leaving.len();
        self.leaving.retain(|_, looks| *looks < LOOKS_AFTER.len());
        if self.leaving.len() < before {
            on_ring(Ring::Died);
        }
    }

    /// Whether one of those who are leaving is gone by now.
    fn see_off(&mut self) -> bool {
        let before = self.leaving.len();
        self.leaving.retain(|session, _| self.presence.look(session) == Sight::Present);
        self.leaving.len() < before
    }
}
