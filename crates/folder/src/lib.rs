//! Coordination on a shared folder, with no server: queues, publishing and outboxes made of plain files.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! use bell_folder::queue::{FolderQueue, Pulse, Settings};
//!
//! let queue = FolderQueue::init(&folder.path().join("work"), Settings::default())?;
//! queue.push("first".as_bytes(), None)?;
//! let mut worker = queue.worker(None, Pulse::Beating)?;
//! while let Some(claim) = worker.claim()? {
//!     let _fence = claim.fence();      // goes with every write that a stale worker must not repeat
//!     claim.done()?;                   // refused if the item was given to somebody else meanwhile
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`queue`] | a work queue: claim by rename, fences, heartbeats, a janitor |
//! | [`publish`](mod@publish) | files and folders that appear whole, or not at all |
//! | [`outbox`] | one file per writer: nothing to coordinate |
//! | [`probe`] | what a file system really does, tried out on it |
//! | [`files`] | the calls that change a file system, where tests put faults |
//! | [`lock`] | kernel locks on files, waited for within a limit |
//! | [`name`] | names of items, and the fence in them |
//! | [`regular`] | opening a regular file: no link followed, no wait for a FIFO |
//! | [`process`] | who a process is, and whether it is gone |
//!
//! Nothing here runs in the background but the heartbeat of a worker, and nothing waits without a limit.

mod dir;
pub mod error;
pub mod files;
pub mod lock;
pub mod name;
pub mod outbox;
pub mod probe;
pub mod process;
pub mod publish;
pub mod queue;
pub mod regular;

pub use error::{Error, Kind, Result};
pub use outbox::Outbox;
pub use publish::{Publish, publish};
pub use queue::{Claim, FolderQueue, Worker};
