//! The lock of the folder: one commit at a time, on one machine or on many.
//!
//! It is the kernel's lock (`flock`) on the marker file, which is created once and never removed: a lock on
//! a file that no longer has its name excludes nobody, so that is looked at each time. The lock is asked for
//! again and again rather than waited for in the kernel, because a wait there has no end if the holder is
//! stopped, and NFS clients take up to half a minute to notice a release.
//!
//! Whoever waits to commit stands in the turnstile, a lock of its own on the file `turn`. A process that lets go
//! and comes back at once finds it taken and has to let the other go first. The turnstile is about fairness, not
//! safety: nobody waits long for it.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bell_store::{Error, Kind, Result, clock};

use crate::dir::{Dir, MARKER, Opening};
use crate::fault;

/// How long a commit waits for the lock. A batch takes milliseconds; whoever holds the lock for longer is
/// stopped, or waits for a disk that does not answer, and callers must hear that they hold nothing while their own deadlines run.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits for its turn: a process stopped in the turnstile costs the others no more than this.
const TURN_PATIENCE: Duration = Duration::from_millis(50);

/// The first and the longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

const _: () = assert!(TURN_PATIENCE.as_millis() < PATIENCE.as_millis());

/// The lock of the folder, not held. Each thread has its own.
#[derive(Debug)]
pub(crate) struct Lock {
    dir: Arc<Dir>,
    marker: File,
    turn: File,
}

/// The lock of the folder, held until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    marker: &'a File,
}

#[derive(Clone, Copy)]
enum Mode {
    Alone,
    WithReaders,
}

impl Lock {
    /// Opens the files that the lock is taken on; created if they are not there.
    ///
    /// # Errors
    /// Those of opening them.
    pub(crate) fn open(dir: &Arc<Dir>) -> Result<Self> {
        let marker = dir.file(MARKER, Opening::Keep)?;
        let turn = dir.file("turn", Opening::Keep)?;
        Ok(Self { dir: Arc::clone(dir), marker, turn })
    }

    /// The file that keeps the head, for looking at it without the lock.
    ///
    /// # Errors
    /// [`Kind::Replaced`] if the file or the folder was.
    pub(crate) fn marker(&self) -> Result<&File> {
        if self.dir.leads_to(MARKER, &self.marker) { Ok(&self.marker) } else { Err(self.replaced()) }
    }

    /// Takes the lock for writing.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if it does not come free, [`Kind::Unsupported`] if there are no locks here,
    /// [`Kind::Replaced`] if the marker file or the folder was.
    pub(crate) fn alone(&self) -> Result<Held<'_>> {
        let is_my_turn = acquire(&self.turn, Mode::Alone, TURN_PATIENCE).unwrap_or(false);
        let taken = self.take(Mode::Alone);
        if is_my_turn {
            // If this fails the file is closed with the process at the latest, and others wait 50 ms until then.
            let _ = self.turn.unlock();
        }
        taken
    }

    /// Takes the lock for reading: what is read is not being changed.
    ///
    /// # Errors
    /// As [`Lock::alone`].
    pub(crate) fn with_readers(&self) -> Result<Held<'_>> {
        self.take(Mode::WithReaders)
    }

    fn take(&self, mode: Mode) -> Result<Held<'_>> {
        if !acquire(&self.marker, mode, PATIENCE).map_err(|error| self.no_locks(error))? {
            let message =
                format!("lock {}: another process holds it and does not let go", self.dir.path().display());
            return Err(Error::new(Kind::Unavailable, message).hint(format!(
                "Look for a stopped or stuck process with fuser -v {MARKER} in that folder."
            )));
        }
        let held = Held { marker: &self.marker };
        if self.dir.leads_to(MARKER, &self.marker) { Ok(held) } else { Err(self.replaced()) }
    }

    fn replaced(&self) -> Error {
        let path = self.dir.path().join(MARKER);
        let message =
            format!("lock {}: it was removed or replaced while this process had it open", path.display());
        Error::new(Kind::Replaced, message).hint(
            "Stop every process that uses the store, put the right folder in its place (after an older copy run bell \
             store raise-epoch), then start them again.",
        )
    }

    fn no_locks(&self, error: io::Error) -> Error {
        let what = format!("lock {}", self.dir.path().join(MARKER).display());
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOLCK | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                Error::new(Kind::Unsupported, format!("{what}: the file system has no locks"))
                    .hint("Mount it with locks (NFS 4, or NFS 3 with rpc.statd running), or use another folder.")
                    .because(error)
            }
            _ => fault::of_io(error, &what),
        }
    }
}

impl Held<'_> {
    /// The file that keeps the head.
    pub(crate) fn marker(&self) -> &File {
        self.marker
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.marker.unlock() {
            tracing::warn!(%error, "the lock of the store could not be let go");
        }
    }
}

/// Has this machine ask the server anew for what is in a file that other machines write to.
///
/// Opening it again does not: while anybody on this machine has a file open for writing, an NFS client takes every change of
/// it for its own and goes on reading its own pages. Only a lock makes it drop them. Shared, so that nobody ever waits for it.
///
/// # Errors
/// Those of locking.
pub(crate) fn drop_cached(file: &File) -> io::Result<()> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock(),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn acquire(file: &File, mode: Mode, patience: Duration) -> io::Result<bool> {
    let start = clock::boottime();
    let mut pause = PAUSES.0;
    loop {
        let tried = match mode {
            Mode::Alone => file.try_lock(),
            Mode::WithReaders => file.try_lock_shared(),
        };
        match tried {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if clock::boottime() - start >= patience => return Ok(false),
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn folder() -> (tempfile::TempDir, Arc<Dir>) {
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(temp.path()).unwrap());
        (temp, dir)
    }

    #[test]
    fn a_second_writer_waits_until_the_first_lets_go() {
        let (_temp, dir) = folder();
        let (first, second) = (Lock::open(&dir).unwrap(), Lock::open(&dir).unwrap());
        let held = first.alone().unwrap();
        let (taken, seen) = mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let _held = second.alone().unwrap();
            taken.send(()).unwrap();
        });
        assert!(seen.recv_timeout(Duration::from_millis(100)).is_err(), "two held it at once");
        drop(held);
        seen.recv().unwrap();
        waiting.join().unwrap();
    }

    #[test]
    fn readers_share_the_lock() {
        let (_temp, dir) = folder();
        let (first, second) = (Lock::open(&dir).unwrap(), Lock::open(&dir).unwrap());
        let _one = first.with_readers().unwrap();
        let _two = second.with_readers().unwrap();
    }

    #[test]
    fn asking_the_server_anew_waits_for_nobody_and_keeps_nobody_waiting() {
        let (_temp, dir) = folder();
        let open = || dir.file("journal.1", Opening::Keep).unwrap();
        let (mine, other) = (open(), open());
        other.lock_shared().unwrap();
        drop_cached(&mine).unwrap();
        other.unlock().unwrap();
        drop_cached(&mine).unwrap();
        other.try_lock().unwrap();
        assert_eq!(drop_cached(&mine).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_process_stopped_in_the_turnstile_does_not_stop_the_others() {
        let (_temp, dir) = folder();
        let (stopped, other) = (Lock::open(&dir).unwrap(), Lock::open(&dir).unwrap());
        stopped.turn.lock().unwrap();
        other.alone().unwrap();
    }

    #[test]
    fn a_lock_on_a_removed_or_replaced_file_is_no_lock() {
        let (temp, dir) = folder();
        let lock = Lock::open(&dir).unwrap();
        std::fs::remove_file(temp.path().join(MARKER)).unwrap();
        assert_eq!(lock.alone().unwrap_err().kind(), Kind::Replaced);
        Lock::open(&dir).unwrap();
        assert_eq!(lock.alone().unwrap_err().kind(), Kind::Replaced);
        assert_eq!(lock.marker().unwrap_err().kind(), Kind::Replaced);
    }
}
