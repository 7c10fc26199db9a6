//! A real `flock(2)` beside the lease, for those who know nothing of leases: pidfile tools and `flock(1)`.
//!
//! It is held by this process for as long as the command runs. If this process is killed the kernel lets go of
//! it at once, while the command is only being told to end; so the lease, and its fence, are what guards.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use bell_api::outcome::Outcome;
use bell_core::lock::Mode;
use bell_locks::folder::regular;
use bell_store::clock::boottime;

use crate::answer::Refusal;
use crate::cli::RunArgs;
use crate::interrupt::{Interrupts, Stop};

/// Others may hold it for hours; they are not told that somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How a wait for it ended.
pub(super) enum Flocked {
    /// It is held until this is dropped.
    Held(Option<File>),
    /// Somebody else has it.
    Busy(Refusal),
    /// The command was told to stop.
    Stopped(Stop),
}

/// Without a key, the file itself is what is locked.
pub(super) fn name_key(args: &mut RunArgs) -> Result<(), Refusal> {
    if let (true, Some(path)) = (args.keys.is_empty(), &args.flock) {
        let real = std::path::absolute(path).map_err(|error| not_locked(path, &error))?;
        args.keys.push(format!("file://{}", real.display()));
    }
    Ok(())
}

/// Takes the lock, waiting no longer than `patience`.
pub(super) async fn take(
    path: Option<&Path>,
    mode: Mode,
    patience: Duration,
    interrupts: &mut Interrupts,
) -> Result<Flocked, Refusal> {
    let Some(path) = path else { return Ok(Flocked::Held(None)) };
    let began = boottime();
    loop {
        if let Some(file) = attempt(path, mode).map_err(|error| not_locked(path, &error))? {
            return Ok(Flocked::Held(Some(file)));
        }
        if boottime().saturating_sub(began) >= patience {
            let outcome = if patience.is_zero() { Outcome::Busy } else { Outcome::TimedOut };
            let message = format!("another process holds the flock on {}", path.display());
            return Ok(Flocked::Busy(Refusal::new(outcome, message, "Look who it is with fuser -v.")));
        }
        tokio::select! {
            stop = interrupts.next() => return Ok(Flocked::Stopped(stop)),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// `None`: somebody else has it.
fn attempt(path: &Path, mode: Mode) -> io::Result<Option<File>> {
    loop {
        let file = open(path)?;
        let tried = match mode {
            Mode::Exclusive => file.try_lock(),
            Mode::Shared => file.try_lock_shared(),
        };
        match tried {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A file that was removed and made again meanwhile would be locked by two.
        let (open, named) = (file.metadata()?, path.symlink_metadata());
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
            return Ok(Some(file));
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    match regular::open(path, &options) {
        // A file of another user can be locked without write access.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            regular::open(path, OpenOptions::new().read(true))
        }
        opened => opened,
    }
}

fn not_locked(path: &Path, error: &io::Error) -> Refusal {
    Refusal::invalid(
        format!("could not take the flock on {}: {error}", path.display()),
        "Name a regular file that this user may open, on a file system with locks; bell doctor fs checks one.",
    )
}
