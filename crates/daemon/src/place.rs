//! Where a project keeps what is Bellwether's: the folder `.bell`, for its owner only.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bell_core::work::run::RunId;

/// The folder `.bell` of a project.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// The place of the project in this folder. Nothing is made yet.
    pub fn of(project: &Path) -> Self {
        Self { root: project.join(".bell") }
    }

    /// Makes the folders.
    ///
    /// # Errors
    /// If they can't be made.
    pub fn make(&self) -> io::Result<()> {
        for folder in [self.root.clone(), self.runs(), self.bin()] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(())
    }

    /// The store of a project that names no other.
    pub fn default_store(&self) -> String {
        format!("sqlite:{}", self.root.join("bell.db").display())
    }

    /// Where runs have their folders.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The folder of a run.
    pub fn run_dir(&self, run: &RunId) -> PathBuf {
        self.runs().join(run.as_str())
    }

    /// The folder of commands that agents find first in their `PATH`.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Keeps other daemons of this machine out of the project until the file is dropped; `None`: one is there.
    ///
    /// # Errors
    /// If the file can't be made or locked.
    pub fn occupy(&self) -> io::Result<Option<File>> {
        let file = File::options().create(true).append(true).open(self.root.join("daemon.lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
