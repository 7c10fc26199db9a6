//! Waiting for a change: told by the kernel on this machine, looked for elsewhere.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use bell_store::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::FolderQueue;
use crate::dir::Dir;
use crate::error::Result;

/// How often to look where the kernel tells nothing of other machines.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Notices changes in the folders of a queue.
#[derive(Debug)]
pub struct Watch {
    waiting: Dir,
    seen: Duration,
    events: Option<OwnedFd>,
}

impl FolderQueue {
    /// Begins to watch what waits.
    ///
    /// # Errors
    /// Those of looking at the folder.
    pub fn watch(&self) -> Result<Watch> {
        let waiting = self.place.waiting.clone();
        // First, so that nothing that happens from now on is missed.
        let events = told_by_kernel(&waiting).ok();
        let seen = waiting.look_at_self().map_err(waiting.fault("look at", ""))?.modified;
        Ok(Watch { waiting, seen, events })
    }
}

impl Watch {
    /// Waits until something came or went, `patience` at the most. Answers whether something did.
    ///
    /// # Errors
    /// Those of looking at the folder.
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        let began = clock::boottime();
        loop {
            let left = patience.saturating_sub(clock::boottime().saturating_sub(began));
            let told = self.sleep(left.min(LOOK_EVERY));
            let seen = self.waiting.look_at_self().map_err(self.waiting.fault("look at", ""))?.modified;
            let changed = seen != self.seen;
            self.seen = seen;
            if told || changed {
                return Ok(true);
            }
            if left <= LOOK_EVERY {
                return Ok(false);
            }
        }
    }

    /// Sleeps until the kernel tells of something. Answers whether it did.
    fn sleep(&self, length: Duration) -> bool {
        let Some(events) = &self.events else {
            std::thread::sleep(length);
            return false;
        };
        let time = Timespec::try_from(length).ok();
        let told =
            poll(&mut [PollFd::new(events, PollFlags::IN)], time.as_ref()).is_ok_and(|count| count > 0);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        while told && reader.next().is_ok() {}
        told
    }
}

fn told_by_kernel(folder: &Dir) -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // By its descriptor: its path may lead elsewhere by now.
    let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
    let watched = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
    inotify::add_watch(&events, path, watched)?;
    Ok(events)
}
