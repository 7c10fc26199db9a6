//! What can be looked at. Figures are shown, not judged: how fast is fast enough is the user's to say.

use serde::Serialize;

use super::leftovers::Leftovers;
use super::machine::Machine;

/// What was seen of a store.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Whether it takes commits.
    pub commits: Commits,
    /// The median time of a read, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_us: Option<u64>,
    /// The median time of a commit that writes one record, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_us: Option<u64>,
    /// Its clock beside this machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSeen>,
    /// What lies in it; `None` if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Leftovers>,
    /// This machine.
    pub machine: Machine,
}

/// Whether a store takes commits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "are")]
pub enum Commits {
    /// One was written, and removed again.
    Taken,
    /// It may have gone back, and waits for an operator.
    Rewound {
        /// What it said.
        why: String,
    },
    /// It refuses.
    Refused {
        /// What it said; reads after «could not».
        why: String,
        /// What to do next, as far as the store knows.
        advice: String,
    },
}

/// A store's clock beside this machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ClockSeen {
    /// How far it is ahead of this machine's wall clock, in ms. Other clocks than a server's count from a zero
    /// of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_ms: Option<i64>,
    /// How exact that is: half the round trip, in ms.
    pub within_ms: u64,
    /// How much further it went than time can have passed here, in ms; negative if it fell behind.
    pub drift_ms: i64,
    /// Over so long, in ms.
    pub watched_ms: u64,
}
