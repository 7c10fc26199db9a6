//! What a store promises. Asked before anything is trusted to it, shown by `bell doctor`.

use std::fmt;

use serde::Serialize;

/// A store's promises.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Info {
    /// The URL scheme that opens it: `memory`, `sqlite`, `file`.
    pub scheme: &'static str,
    /// Where it is, without credentials.
    pub location: String,
    /// Who shares it.
    pub scope: Scope,
    /// What an answered commit survives.
    pub durability: Durability,
    /// What it costs when another server takes the place of the one that answers.
    pub fail_over: FailOver,
    /// What its clock is.
    pub clock: Clock,
    /// How changes by others arrive.
    pub push: Push,
    /// Whether a process of this machine that dies is noticed before its lease runs out.
    pub notices_death: bool,
    /// The largest things it takes.
    pub limits: Limits,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

/// What an operator should know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Warning {
    /// Which promise it is about.
    pub about: Concern,
    /// One sentence: what can happen, and what to do about it.
    pub words: String,
}

impl Warning {
    /// Warns in these words.
    pub fn new(about: Concern, words: impl Into<String>) -> Self {
        Self { about, words: words.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// What a warning is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concern {
    /// What an answered commit survives.
    Durability,
    /// What it costs when another server takes over.
    FailOver,
    /// When nothing can be locked.
    Availability,
    /// Who may share it.
    Sharing,
    /// How soon changes arrive.
    Push,
    /// Whether commits are taken at all.
    Commits,
}

/// Who can share a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Threads of one process.
    Process,
    /// Processes of one machine.
    Host,
    /// Machines.
    Distributed,
}

/// What an answered commit survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Nothing: it is gone with the process.
    Volatile,
    /// The end of any process, not of the machine.
    Process,
    /// A power cut.
    Power,
}

/// What it costs when another server takes the place of the one that answers.
///
/// Read off the server when the store is opened: a standby that is added later, or one that is fed from
/// archived files and never connects, is not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailOver {
    /// Nothing takes over. The store is as available as the one place where it lies: a file, a folder, a
    /// server alone, an etcd of one member or two.
    None,
    /// What was acknowledged is kept: whoever takes over has confirmed it. An etcd with a majority behind
    /// every commit; PostgreSQL that waits for a standby, if the one promoted is one that it waited for.
    Kept,
    /// What was acknowledged in the last moments may be lost, and with it who held what: a lock may be
    /// granted to a second holder while the first still believes in it. Commits are refused once the loss is
    /// noticed, until an operator raises the epoch, so that fences rise again from there; a server that was
    /// cut off but lives may go on granting to those who still reach it. Redis with replicas, sentinels or
    /// as a cluster; PostgreSQL with a standby that it does not wait for.
    Loses,
}

/// What a store's clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The machine's time since boot, suspend included; setting the wall clock changes nothing.
    Boottime,
    /// The file server's time stamps.
    FileServer,
    /// The database server's clock.
    Server,
    /// Counted by its clients: by one machine's time since boot at a time, which the others ask for.
    Clients,
    /// Moved by a test.
    Manual,
}

/// How changes made elsewhere arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Push {
    /// The engine or the kernel tells.
    Push,
    /// They are looked for, this often.
    Poll {
        /// Milliseconds between two looks.
        interval_ms: u64,
    },
}

/// The largest things a store takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Limits {
    /// Bytes in a name. A lock key of 512 bytes with the longest prefix fits in 1,024.
    pub name_bytes: usize,
    /// Bytes in a value. etcd takes 1.5 MiB in a request, so nothing may grow beyond 1 MiB anywhere.
    pub value_bytes: usize,
    /// Expectations, and writes, in one transaction. etcd takes 128 operations, and its store needs three
    /// of them for itself.
    pub txn_ops: usize,
    /// Records that one read or one page of a scan may ask for.
    pub page: usize,
}

impl Limits {
    /// What every store must take, and all that callers may rely on.
    pub const CONTRACT: Self = Self { name_bytes: 1_024, value_bytes: 1 << 20, txn_ops: 125, page: 1_000 };
}
