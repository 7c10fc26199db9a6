//! The store's clock.
//!
//! Within one machine it is the machine's time since boot plus a base, which the first to open the folder after a
//! boot puts in the journal: not before anything the store has shown in a commit, and near the wall clock so
//! that it reads well. Setting the wall clock later changes nothing.
//!
//! Between machines it is the file server's: a folder is touched, and the server stamps it with its own time. A folder,
//! because NFS servers may leave the stamps of a file to the one client that writes it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use bell_store::record::Timestamp;
use bell_store::{Error, Kind, Result, clock};
use rustix::fs::{AtFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW};

use crate::batch::Epoch;
use crate::dir::Dir;
use crate::fault;
use crate::image::Image;
use crate::view::Reach;

/// The folder that is touched.
const STAMPED: &str = "clock";

/// Reads the store's clock.
pub(crate) enum Timekeeper {
    /// By this machine's time since boot.
    Boot {
        /// This boot.
        id: String,
        /// What the clock showed at boot.
        base_ms: u64,
    },
    /// By the file server.
    Server {
        /// What is touched.
        stamped: OwnedFd,
        /// The latest time shown by this process: a server set back must not take time back.
        latest_ms: AtomicU64,
    },
}

impl Timekeeper {
    /// The clock of a store that was left like this.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if the store's clock is of the other kind, or those of the system.
    pub(crate) fn start(dir: &Dir, reach: Reach, image: &Image) -> Result<Self> {
        match (reach, &image.epoch) {
            (Reach::Host, Some(Epoch::Server)) | (Reach::Network, Some(Epoch::Boot { .. })) => {
                Err(other_way(dir))
            }
            (Reach::Network, _) => Ok(Self::Server {
                stamped: dir.folder(STAMPED)?,
                latest_ms: AtomicU64::new(image.now.as_ms()),
            }),
            (Reach::Host, epoch) => {
                let id = clock::boot_id()
                    .map_err(|error| fault::of_io(error, "learn when this machine booted"))?;
                let base_ms = match epoch {
                    Some(Epoch::Boot { id: known, base_ms }) if *known == id => *base_ms,
                    _ => new_base(image.now, clock::wall(), clock::boottime()),
                };
                Ok(Self::Boot { id, base_ms })
            }
        }
    }

    /// What the journal has to say of this clock.
    pub(crate) fn epoch(&self) -> Epoch {
        match self {
            Self::Boot { id, base_ms } => Epoch::Boot { id: id.clone(), base_ms: *base_ms },
            Self::Server { .. } => Epoch::Server,
        }
    }

    /// The time, not before that of the last commit.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if another machine has taken the store over, or those of asking the server.
    pub(crate) fn now(&self, image: &Image) -> Result<Timestamp> {
        if image.epoch.as_ref().is_some_and(|epoch| *epoch != self.epoch()) {
            return Err(Error::new(
                Kind::Unsupported,
                "go on with the store: another machine has taken it over",
            )
            .hint("Let one machine use it, or put it on NFS 4 or in a database that the machines share."));
        }
        self.read().map(|now| now.max(image.now))
    }

    /// The time, without a look at what was committed.
    ///
    /// # Errors
    /// Those of asking the server.
    pub(crate) fn read(&self) -> Result<Timestamp> {
        match self {
            Self::Boot { base_ms, .. } => Ok(Timestamp::from_ms(base_ms + millis(clock::boottime()))),
            Self::Server { stamped, latest_ms } => {
                let now = server_time(stamped)
                    .map_err(|error| fault::of_io(error, "ask the file server for its time"))?;
                let latest = latest_ms.fetch_max(millis(now), Ordering::Relaxed);
                Ok(Timestamp::from_ms(latest.max(millis(now))))
            }
        }
    }
}

impl fmt::Debug for Timekeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.epoch().fmt(f)
    }
}

fn new_base(last: Timestamp, wall: Duration, boottime: Duration) -> u64 {
    millis(wall).max(last.as_ms()).saturating_sub(millis(boottime))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn server_time(stamped: &OwnedFd) -> io::Result<Duration> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    rustix::fs::futimens(stamped, &Timestamps { last_access: now, last_modification: now })?;
    // What this machine remembers of the folder is not good enough.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let seen = rustix::fs::statx(stamped, "", flags, StatxFlags::MTIME)?.stx_mtime;
    Ok(Duration::new(seen.tv_sec.unsigned_abs(), seen.tv_nsec))
}

fn other_way(dir: &Dir) -> Error {
    let path = dir.path().display();
    Error::new(
        Kind::Unsupported,
        format!("use {path}: it is used both over a network and on its own machine, whose locks do not meet"),
    )
    .hint("Reach the folder in the same way from everywhere: over NFS also on the server, or start with an empty one.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn after_a_boot_time_goes_on_from_the_last_commit_or_the_wall_clock() {
        let last = Timestamp::from_ms(millis(10 * HOUR));
        assert_eq!(new_base(last, 30 * HOUR, HOUR), millis(29 * HOUR));
        assert_eq!(new_base(last, 2 * HOUR, HOUR), millis(9 * HOUR), "the wall clock was set back");
    }

    #[test]
    fn a_machine_that_was_up_for_longer_than_its_wall_clock_shows_does_not_underflow() {
        assert_eq!(new_base(Timestamp::default(), Duration::ZERO, HOUR), 0);
    }

    #[test]
    fn a_store_taken_over_by_another_boot_is_not_gone_on_with() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let mut image = Image::default();
        let keeper = Timekeeper::start(&dir, Reach::Host, &image).unwrap();
        image.epoch = Some(keeper.epoch());
        keeper.now(&image).unwrap();
        image.epoch = Some(Epoch::Boot { id: "another".to_owned(), base_ms: 0 });
        assert_eq!(keeper.now(&image).unwrap_err().kind(), Kind::Unsupported);
    }

    #[test]
    fn a_store_used_over_a_network_is_not_opened_past_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let mut image = Image::default();
        image.epoch = Some(Epoch::Server);
        let error = Timekeeper::start(&dir, Reach::Host, &image).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
    }

    #[test]
    fn the_servers_time_is_that_of_its_stamps_and_never_goes_back() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        let keeper = Timekeeper::start(&dir, Reach::Network, &Image::default()).unwrap();
        let first = keeper.read().unwrap();
        let stamped = std::fs::metadata(temp.path().join(STAMPED)).unwrap().modified().unwrap();
        let since = stamped.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(first.as_ms(), millis(since));
        assert!(keeper.read().unwrap() >= first);
        let ahead = Image::starting_at(1, first + HOUR);
        assert_eq!(keeper.now(&ahead).unwrap(), first + HOUR, "a commit has shown this time already");
    }
}
