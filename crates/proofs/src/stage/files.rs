//! Stores that are files: SQLite and the folder. There is no server, and no network.

use std::path::Path;

use anyhow::Result;

use super::{Side, Stage, shown};

/// A store in files of its own.
pub struct Files {
    scheme: &'static str,
    folder: tempfile::TempDir,
}

impl Files {
    /// A new store of this scheme below a folder.
    ///
    /// # Errors
    /// If no folder can be made there.
    pub fn new(scheme: &'static str, below: &Path) -> Result<Self> {
        Ok(Self { scheme, folder: tempfile::tempdir_in(below)? })
    }
}

impl Stage for Files {
    fn place(&self) -> String {
        "files on a local disk".to_owned()
    }

    fn url(&self, _side: Side) -> String {
        format!("{}:{}", self.scheme, shown(&self.folder.path().join("store")))
    }
}
