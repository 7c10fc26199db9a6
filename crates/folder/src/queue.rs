//! A work queue that is a folder: whoever moves an item into its own folder has it.
//!
//! ```text
//! queue/             waiting; names sort oldest first
//! claimed/<worker>/  being worked on; the folder's time stamp is the worker's heartbeat
//! done/  failed/     finished
//! .tmp/              being written
//! .bell-queue/       settings, who the workers are, the order of what waits: all of it may be lost but the settings
//! ```
//!
//! A rename has exactly one winner. The fence is a part of the item's name ([`crate::name`]), so putting an
//! item back, marking it done and declaring a worker dead are all one rename each, and the rename is the
//! guard: of a late worker and the janitor, one finds the name gone.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `place` | the folders of a queue, opened once |
//! | `push` | putting items in |
//! | `order` | which item is next, without listing the folder for each |
//! | `worker`, `claim` | claiming; what may be done with a claim |
//! | `record` | who a worker is |
//! | `janitor` | putting back what the dead left |
//! | `list` | what is where |
//! | `wait` | waiting for a change |

mod claim;
mod janitor;
mod list;
mod order;
mod place;
mod push;
mod record;
mod wait;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::files::{Files, Kernel};

pub use claim::{Claim, Fate};
pub use janitor::{Act, Found, Limits, Mode, Sweep};
pub use list::{Counts, Item, State};
pub use record::Pulse;
pub use wait::Watch;
pub use worker::Worker;

use place::Place;

/// How often an item is tried before it goes to `failed/`, unless the queue says otherwise.
pub const DEFAULT_ATTEMPTS: u64 = 3;

/// What holds for a queue, whoever uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// How often an item is tried before it goes to `failed/`.
    pub attempts: u64,
    /// What is synced to the disk before it is answered.
    pub syncing: Syncing,
}

/// What is synced to the disk before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syncing {
    /// Every push, done and fail: they survive a power cut.
    Everything,
    /// Nothing: a power cut may take the last seconds. Items are then done again, or lost if just pushed.
    Nothing,
}

impl Default for Settings {
    fn default() -> Self {
        Self { attempts: DEFAULT_ATTEMPTS, syncing: Syncing::Everything }
    }
}

/// A work queue in a folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FolderQueue {
    place: Arc<Place>,
}

impl FolderQueue {
    /// Makes a folder a queue, or changes the settings of one. What is in it stays.
    ///
    /// # Errors
    /// If a part of it can't be made, is a link, or is on another file system than the rest.
    pub fn init(path: &Path, settings: Settings) -> Result<Self> {
        Ok(Self { place: Arc::new(Place::init(path, settings, Arc::new(Kernel))?) })
    }

    /// Opens a queue. One that was made by hand is enough: a folder with a folder `queue` in it.
    ///
    /// # Errors
    /// As [`FolderQueue::init`]; [`crate::Kind::NotFound`] if it is no queue.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, Arc::new(Kernel))
    }

    /// Opens a queue over another layer of files, for tests.
    ///
    /// # Errors
    /// As [`FolderQueue::open`].
    pub fn open_with(path: &Path, files: Arc<dyn Files>) -> Result<Self> {
        Ok(Self { place: Arc::new(Place::open(path, files)?) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.place.root.path()
    }

    /// What holds for it.
    pub fn settings(&self) -> Settings {
        self.place.settings
    }

    /// Begins to work on it, under a name of its own or a given one, which only one process may have at a time.
    ///
    /// # Errors
    /// [`crate::Kind::Busy`] if another process works under that name; those of making its folder.
    pub fn worker(&self, name: Option<&str>, pulse: Pulse) -> Result<Worker> {
        Worker::begin(Arc::clone(&self.place), name, pulse)
    }

    /// The time by the clock of the file server, since 1970.
    ///
    /// # Errors
    /// Those of asking it.
    pub fn now(&self) -> Result<Duration> {
        self.place.now()
    }
}
