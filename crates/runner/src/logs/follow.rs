//! Waiting for more output: woken by the kernel, not by a clock.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::{Page, read};
use crate::error::{Error, Result};
use crate::readiness::readable;

/// Network file systems report only what happens on this machine; what else happened is seen this late.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);

/// Output as it comes.
#[derive(Debug)]
pub struct Follow {
    run_dir: PathBuf,
    changes: AsyncFd<OwnedFd>,
    next: u64,
    is_over: bool,
}

/// Follows the output of a run from `from` on.
///
/// A run whose supervisor was killed has no end to wait for until somebody adopts it.
pub fn follow(run_dir: &Path, from: u64) -> Result<Follow> {
    let failed = |error: Errno| Error::io(format!("watch {}", run_dir.display()), error);
    let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(failed)?;
    let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE_SELF;
    inotify::add_watch(&changes, run_dir, what).map_err(failed)?;
    let changes =
        readable(changes).map_err(|error| Error::io(format!("watch {}", run_dir.display()), error))?;
    Ok(Follow { run_dir: run_dir.to_owned(), changes, next: from, is_over: false })
}

impl Follow {
    /// The next output, about `limit` bytes at most; `None` when the run is over and all of it was given.
    ///
    /// Dropped half-way, nothing is lost.
    pub async fn next(&mut self, limit: usize) -> Result<Option<Page>> {
        while !self.is_over {
            let page = read(&self.run_dir, self.next, limit)?;
            self.next = page.next;
            self.is_over = page.is_last;
            if !page.lines.is_empty() {
                return Ok(Some(page));
            }
            if !self.is_over {
                self.changed().await?;
            }
        }
        Ok(None)
    }

    /// Where the next page begins.
    pub fn offset(&self) -> u64 {
        self.next
    }

    async fn changed(&self) -> Result<()> {
        let Ok(ready) = tokio::time::timeout(LOOK_ANYWAY, self.changes.readable()).await else {
            return Ok(());
        };
        let mut ready = ready.map_err(|error| Error::io("wait for output", error))?;
        let mut events = [0; 4096];
        // What changed does not matter: the file is looked at again in any case.
        while rustix::io::read(&self.changes, &mut events).is_ok_and(|length| length > 0) {}
        ready.clear_ready();
        Ok(())
    }
}
