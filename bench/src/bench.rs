//! What all measurements share: where, how long, and the runtime.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// How much time to take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// For numbers to keep.
    Thorough,
    /// For a first impression.
    Quick,
    /// To see that it works; the numbers mean nothing.
    Smoke,
}

/// One run. Dropped, everything it stored is removed.
pub(crate) struct Bench {
    pub(crate) pace: Pace,
    pub(crate) runtime: Runtime,
    folder: TempDir,
    places: AtomicU32,
}

impl Bench {
    pub(crate) fn new(folder: &Path, pace: Pace) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("bell-bench-").tempdir_in(folder);
        let folder = folder.context("could not make a folder for the stores")?;
        Ok(Self { pace, runtime: runtime()?, folder, places: AtomicU32::new(0) })
    }

    /// Where nothing is yet.
    pub(crate) fn new_place(&self) -> PathBuf {
        self.folder.path().join(self.places.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Says on standard error what is being measured: a run takes minutes.
    pub(crate) fn tell(&self, what: &str) {
        eprintln!("measuring {what}");
    }

    /// How long to repeat something.
    pub(crate) fn span(&self) -> Duration {
        match self.pace {
            Pace::Thorough => Duration::from_secs(3),
            Pace::Quick => Duration::from_millis(500),
            Pace::Smoke => Duration::from_millis(20),
        }
    }

    /// How often to repeat something that is `thorough` times repeated when there is time.
    pub(crate) fn times(&self, thorough: usize) -> usize {
        match self.pace {
            Pace::Thorough => thorough,
            Pace::Quick => thorough.div_ceil(10),
            Pace::Smoke => thorough.div_ceil(100),
        }
    }
}

/// The runtime that a program with many agents would have.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("could not start a runtime")
}
