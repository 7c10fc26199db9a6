//! Where records live: a small ordered key-value space with compare-and-commit.
//!
//! Six methods carry every feature of Bellwether. A store knows nothing of locks, queues or runs; it
//! promises that a commit is all or nothing, that versions rise for ever, and that it has one clock.
//! What to write is decided by `bell-core`; `bell-coord` is the only caller that commits.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`record`] | names, records, snapshots |
//! | [`txn`] | what a commit asks for and what it answers |
//! | [`check`] | what every store refuses before its engine sees it |
//! | [`error`] | why a store could not do it, and whether trying again can help |
//! | [`info`] | what a store promises, in words a program and a person can read |
//! | [`clock`] | the one place that reads the machine's clocks |
//! | [`epoch`] | revisions above all that were given out, for a store that was set back |
//! | [`hub`] | waking those who wait for a change |
//! | [`topic`] | what changes are told under |
//! | [`group`] | one thread that takes every waiting request into one commit |
//! | [`reply`] | what came of it, told to those who wait |
//! | [`doorbell`] | telling the other processes of this machine that something changed |
//! | [`mount`] | what kind of file system a path is on |
//! | [`presence`] | noticing at once that a process on this machine died |
//! | [`memory`] | the store of one process |
//! | [`layers`] | retry, time limit and metrics around any store |
//! | `simulated` | a machine that exists only in a simulation (feature `simulated`) |
//! | [`suite`] | the cases every store must pass |

pub mod check;
pub mod clock;
pub mod doorbell;
pub mod epoch;
pub mod error;
pub mod group;
pub mod hub;
pub mod info;
pub mod layers;
pub mod memory;
pub mod mount;
pub mod presence;
pub mod record;
pub mod reply;
#[cfg(feature = "simulated")]
pub mod simulated;
pub mod suite;
pub mod topic;
pub mod txn;

pub use error::{Error, Kind, Result};
pub use info::Info;
pub use presence::Presence;
pub use record::{Name, Record, Revision, Snapshot, Timestamp, Version};
pub use txn::{Committed, Expect, Outcome, Stamp, Txn, Watch, Write};

/// An ordered key-value space with compare-and-commit.
///
/// Futures may be dropped at any point: a dropped read or wait has no effect, and a dropped commit has
/// happened or not (as after [`Kind::Unknown`]), never half.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// What this store promises. Known without asking the engine.
    fn info(&self) -> &Info;

    /// The store's clock, the only one leases are measured on. It never goes back.
    async fn now(&self) -> Result<Timestamp>;

    /// The named records as of one revision; a name with no record is simply absent from the answer.
    async fn read(&self, names: &[Name]) -> Result<Snapshot>;

    /// Records whose name starts with `prefix` and is not less than `from`, in byte order of their
    /// names, at most `limit` of them, as of one revision. [`Snapshot::more`] says that some were left.
    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot>;

    /// Applies all writes of `txn` if every expectation holds, or none.
    ///
    /// Answered only when the commit is as durable as [`Info::durability`] promises.
    async fn commit(&self, txn: Txn) -> Result<Outcome>;

    /// Returns once something watched may have changed: promptly where the engine pushes. It may return
    /// early for no reason, never late; callers read again.
    async fn changed(&self, watch: &Watch) -> Result<()>;

    /// How this store notices that a session's process has died, where it can notice before a lease
    /// runs out. Most stores can't.
    fn presence(&self) -> &dyn Presence {
        &presence::Unknown
    }

    /// How often something happened that no record shows, such as the death of a process. [`Self::changed`] returns
    /// when that happens, but only to those who wait by then; who decides on such things takes this number
    /// before looking, and looks again if it has risen by the time they wait.
    fn stirs(&self) -> u64 {
        0
    }
}
