//! The stores that are measured.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bell_coord::{Keep, Session};
use bell_core::key::Key;
use bell_locks::locks::this_process;
use bell_store::Store;
use bell_store::memory::Memory;
use bell_store_fs::Folder;
use bell_store_sqlite::Sqlite;
use serde::{Deserialize, Serialize};

/// Which store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Make {
    Memory,
    Sqlite,
    Files,
}

impl Make {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Sqlite, Self::Files];
    /// Those that several processes can share.
    pub(crate) const SHARED: [Self; 2] = [Self::Sqlite, Self::Files];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "SQLite",
            Self::Files => "files",
        }
    }

    /// Opens the store at `place`. It blocks: not for async code.
    pub(crate) fn open(self, place: &Path) -> Result<Arc<dyn Store>> {
        let opened: Arc<dyn Store> = match self {
            Self::Memory => Arc::new(Memory::new()),
            Self::Sqlite => Arc::new(Sqlite::open(place).context("could not open the store")?),
            Self::Files => Arc::new(Folder::open(place).context("could not open the store")?),
        };
        Ok(opened)
    }
}

/// A session as a program would have it: with its name in it, so that records have a fair size.
pub(crate) fn session(keep: Keep) -> Result<Session> {
    Ok(Session::new(this_process(), keep)?)
}

/// A key of a usual length.
pub(crate) fn key(topic: &str, number: usize) -> Result<Key> {
    Ok(Key::parse(&format!("github://acme/{topic}/issues/{number}"))?)
}
