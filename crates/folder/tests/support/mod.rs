//! A queue of its own for each test, and a layer of files that fails on demand.

#![expect(dead_code, reason = "each test binary uses a part of it")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bell_folder::files::{At, Files, Kernel, Onto, What};
use bell_folder::queue::{FolderQueue, Settings, Syncing};
use rustix::io::Errno;

/// Long enough for a machine under any load: only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue in a folder that is removed afterwards.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) queue: FolderQueue,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::with(Settings { syncing: Syncing::Nothing, ..Settings::default() })
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let queue = FolderQueue::init(&folder.path().join("q"), settings).unwrap();
        Self { folder, queue }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("q").join(name)
    }

    pub(crate) fn push(&self, names: &[&str]) {
        for name in names {
            self.queue.push(name.as_bytes(), Some(name)).unwrap();
        }
    }

    /// The names in a folder of the queue, in order.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        names(&self.path(folder))
    }

    /// The same queue over a layer that fails.
    pub(crate) fn over(&self, files: Arc<dyn Files>) -> FolderQueue {
        FolderQueue::open_with(&self.folder.path().join("q"), files).unwrap()
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What goes wrong with a rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It happens, and its reply gets lost: the client sends it again and hears that the name is gone.
    RepliesNotFound,
    /// It happens, and the client hears of an I/O error.
    RepliesIo,
    /// It does not happen, and the client hears of an I/O error.
    FailsIo,
}

/// Breaks renames whose new name has a given part in its path, as often as asked for.
#[derive(Debug)]
pub(crate) struct Flaky {
    pub(crate) faults: Mutex<Vec<Fault>>,
    /// Whether renames that must not replace are supported.
    pub(crate) flags: bool,
}

impl Flaky {
    pub(crate) fn new(faults: &[Fault]) -> Arc<Self> {
        Arc::new(Self { faults: Mutex::new(faults.to_vec()), flags: true })
    }

    /// As NFS is: no flags of renames.
    pub(crate) fn without_flags(faults: &[Fault]) -> Arc<Self> {
        Arc::new(Self { faults: Mutex::new(faults.to_vec()), flags: false })
    }

    pub(crate) fn then(&self, fault: Fault) {
        self.faults.lock().unwrap().push(fault);
    }
}

impl Files for Flaky {
    fn rename(&self, from: At<'_>, to: At<'_>, onto: Onto) -> io::Result<()> {
        if !self.flags && onto != Onto::Anything {
            return Err(Errno::INVAL.into());
        }
        // Hints and rubbish are none of what is tried here.
        let is_item = !to.name.as_encoded_bytes().starts_with(b"order")
            && !to.name.as_encoded_bytes().ends_with(b".trash")
            && !from.name.as_encoded_bytes().starts_with(b".");
        let fault = is_item.then(|| self.faults.lock().unwrap().pop()).flatten();
        match fault {
            None => Kernel.rename(from, to, onto),
            Some(Fault::FailsIo) => Err(Errno::IO.into()),
            Some(fault) => {
                Kernel.rename(from, to, onto)?;
                Err(if fault == Fault::RepliesIo { Errno::IO } else { Errno::NOENT }.into())
            }
        }
    }
}

/// Ends the process, as `kill -9` would, before a given call; counts the calls otherwise.
#[derive(Debug)]
pub(crate) struct KillAt {
    calls: AtomicUsize,
    at: usize,
}

impl KillAt {
    pub(crate) fn new(at: usize) -> Arc<Self> {
        Arc::new(Self { calls: AtomicUsize::new(0), at })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn step(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
    }
}

impl Files for KillAt {
    fn rename(&self, from: At<'_>, to: At<'_>, onto: Onto) -> io::Result<()> {
        self.step();
        Kernel.rename(from, to, onto)
    }

    fn link(&self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        self.step();
        Kernel.link(from, to)
    }

    fn symlink(&self, target: &OsStr, at: At<'_>) -> io::Result<()> {
        self.step();
        Kernel.symlink(target, at)
    }

    fn create(&self, at: At<'_>) -> io::Result<File> {
        self.step();
        Kernel.create(at)
    }

    fn make_folder(&self, at: At<'_>) -> io::Result<()> {
        self.step();
        Kernel.make_folder(at)
    }

    fn remove(&self, at: At<'_>, what: What) -> io::Result<()> {
        self.step();
        Kernel.remove(at, what)
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.step();
        Kernel.sync(file)
    }
}

/// This test program again, doing only what the test named `role` does when it finds `order`.
pub(crate) fn myself(role: &str, order: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "tests need processes of their own")]
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--nocapture", "--quiet"]).env("BELL_FOLDER_ORDER", order);
    command.stdout(std::process::Stdio::null());
    command
}

/// What this process was started for, if it is not the test run itself.
pub(crate) fn order() -> Option<String> {
    std::env::var("BELL_FOLDER_ORDER").ok()
}

/// Waits for something that must come to be.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = bell_store::clock::boottime();
    while !is_so() {
        let waited = bell_store::clock::boottime() - began;
        assert!(waited < PATIENCE, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
