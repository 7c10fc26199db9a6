//! What a store can lose, when, and what to change: the words behind `bell doctor`.
//!
//! [`look`] asks the store and the machine; [`judge`] turns what was seen into findings and asks nothing.
//! Nothing here proves a promise by trying it: that is what `verify` is for.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `judge` | the findings: pure |
//! | `advice` | the setting or command that mends it, for each engine |
//! | `seen` | what can be looked at |
//! | `probe` | asking the store: commits, round trips, clock |
//! | `leftovers` | what dead sessions left, long queues, leases that run out |
//! | `machine` | the file system and the limits of this machine |
//!
//! # What is called unsafe
//! A store is unsafe if two may hold one lock, or a fence may repeat, without anybody noticing in time:
//!
//! - Another server takes over that does not have everything ([`FailOver::Loses`]): the first holder still
//!   believes, and may still reach the old server. That commits are refused on the new one limits the harm; it
//!   does not undo the grants of the old one.
//! - A server that machines share forgets answered commits with a power cut and does not notice: its clients on
//!   other machines live on, and the next grant repeats a fence.
//!
//! It is not unsafe, and only worth a warning, if the loss can't be missed or nobody is left to be hurt:
//!
//! - Redis without `appendfsync always` may forget answered commits with a crash. But another process of the server is
//!   not believed: every commit is refused until an operator raises the epoch, and fences go on above all before.
//!   The price is an outage, not a second holder.
//! - A file in memory is gone with its machine, and so is every process that held a lock in it. Guards that
//!   remember fences elsewhere refuse the new, lower ones: again an outage.
//!
//! [`FailOver::Loses`]: bell_store::info::FailOver::Loses

mod advice;
mod judge;
mod leftovers;
mod machine;
mod probe;
mod seen;

use std::sync::Arc;

use bell_store::{Info, Store};
use serde::Serialize;

pub use judge::judge;
pub use leftovers::{Leftovers, LongQueue};
pub use machine::{Machine, Room};
pub use seen::{ClockSeen, Commits, Seen};

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A promise, and it is kept.
    Ok,
    /// Good to know.
    Note,
    /// It can cost an outage, or is about to.
    Warning,
    /// Something can't work as it is.
    Broken,
    /// Two may hold one lock, or a fence may repeat; or others can read or change what is not theirs.
    Unsafe,
}

impl Level {
    /// The word that people and programs see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Broken => "broken",
            Self::Unsafe => "unsafe",
        }
    }
}

/// One thing that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// What it is about, in a word or two.
    pub about: &'static str,
    /// The rule of the lock contract that it touches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// What is so, and what that costs.
    pub what: String,
    /// How the store itself puts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What to do: a setting, or a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Everything that was found about a store.
#[derive(Clone, Debug, Serialize)]
pub struct Checkup {
    /// What it promises.
    pub info: Info,
    /// What was looked at.
    pub seen: Seen,
    /// What that means, the worst last.
    pub findings: Vec<Finding>,
}

impl Checkup {
    /// The worst that was found.
    pub fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// How many findings there are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Looks at an open store and the machine, and judges. It takes about a second, writes one record under a
/// scope of its own and removes it.
///
/// Dropped half-way, that record may stay; the next look removes it.
pub async fn look(store: &Arc<dyn Store>) -> Checkup {
    let seen = probe::probe(store).await;
    let info = store.info().clone();
    let mut findings = judge(&info, &seen);
    // Stable: within a level they stay in the order of the promises.
    findings.sort_by_key(|finding| finding.level);
    Checkup { info, seen, findings }
}
