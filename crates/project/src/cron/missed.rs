//! Which nominal times are due now, and which have been missed. Also how late each may start.
//!
//! A nominal time is the key: whoever asks says up to which moment everything has been considered, so a clock
//! that goes back finds nothing new and nothing fires twice.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::Schedule;
use crate::name::AgentName;
use crate::settings::Catchup;

/// A fire less late than this is on time: a busy machine wakes late and a daemon restarts, and that is no outage.
/// It is the shortest interval that an expression can have, so at most one fire is on time.
const ON_TIME: SignedDuration = SignedDuration::from_secs(60);
/// Missed times that are told one by one; the oldest of more are only counted.
pub const MISSED_ROWS_MAX: usize = 1_000;
/// Nominal times looked at in one go: a week of every minute.
const LOOKED_AT_MAX: usize = 10_080;

/// What is to be done about the nominal times since the last look.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Due {
    /// These fire now, oldest first.
    pub fire: Vec<Timestamp>,
    /// These do not, and each leaves a row that says why, oldest first.
    pub missed: Vec<Missed>,
    /// More missed times, older than those that are told: too many for rows of their own.
    pub uncounted: bool,
    /// Everything up to here has been considered: the `considered` of the next look.
    pub considered: Timestamp,
}

/// A nominal time that does not fire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The nominal time.
    pub nominal: Timestamp,
    /// Why it does not fire.
    pub reason: Reason,
}

/// Why a nominal time does not fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Nobody was there at its time, and the agent catches up on nothing.
    NotCaughtUp,
    /// It is longer ago than the agent's `catchup.window`.
    TooOld,
    /// Later ones used up the agent's `catchup.max`.
    OverCap,
}

impl Reason {
    /// For history and people: what happened, and what would change it.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotCaughtUp => {
                "missed: no daemon was there at its time; set catchup to make up for such runs"
            }
            Self::TooOld => "missed: longer ago than catchup.window",
            Self::OverCap => "missed: later runs used up catchup.max",
        }
    }
}

/// Decides about every nominal time after `considered`, up to `now`. Answers nothing new while `now` is not
/// after `considered`.
pub fn due(schedule: &Schedule, considered: Timestamp, now: Timestamp, catchup: Option<&Catchup>) -> Due {
    if now <= considered {
        return Due { considered, ..Due::default() };
    }
    let (nominal, uncounted) = times(schedule, considered, now);
    let (late, on_time): (Vec<_>, Vec<_>) =
        nominal.into_iter().partition(|time| now.duration_since(*time) >= ON_TIME);
    let mut fire = Vec::new();
    let mut missed = Vec::new();
    let room = catchup.map_or(0, |catchup| usize::try_from(catchup.max).unwrap_or(usize::MAX));
    let window = catchup.map_or(Duration::ZERO, |catchup| catchup.window.get());
    // From the latest backwards: those are worth most.
    for time in late.into_iter().rev() {
        let age = now.duration_since(time).unsigned_abs();
        let reason = match catchup {
            None => Some(Reason::NotCaughtUp),
            Some(_) if age > window => Some(Reason::TooOld),
            Some(_) if fire.len() >= room => Some(Reason::OverCap),
            Some(_) => None,
        };
        match reason {
            Some(reason) => missed.push(Missed { nominal: time, reason }),
            None => fire.push(time),
        }
    }
    let uncounted = uncounted || missed.len() > MISSED_ROWS_MAX;
    missed.truncate(MISSED_ROWS_MAX);
    missed.reverse();
    fire.reverse();
    fire.extend(on_time);
    Due { fire, missed, uncounted, considered: now }
}

/// The nominal times, and whether some older ones were left out. After a long time away only the end is looked
/// at, in steps that go back until enough are found.
fn times(schedule: &Schedule, after: Timestamp, until: Timestamp) -> (Vec<Timestamp>, bool) {
    let mut from = after;
    let mut all = schedule.fires_between(from, until, LOOKED_AT_MAX + 1);
    let mut uncounted = false;
    while all.len() > LOOKED_AT_MAX {
        uncounted = true;
        // Half of what is left, from its middle: at most 64 rounds until it fits.
        let half = until.duration_since(from) / 2;
        let Ok(middle) = from.checked_add(half) else { break };
        from = middle;
        all = schedule.fires_between(from, until, LOOKED_AT_MAX + 1);
    }
    (all, uncounted)
}

impl Schedule {
    /// How much later than its nominal time a fire starts: less than `jitter` and less than the time to the next
    /// fire, always the same for the same agent and nominal time, on every node.
    pub fn delay(&self, agent: &AgentName, nominal: Timestamp, jitter: Duration) -> Duration {
        let interval =
            self.next_after(nominal).map_or(jitter, |next| next.duration_since(nominal).unsigned_abs());
        let bound_ms = u64::try_from(jitter.min(interval).as_millis()).unwrap_or(u64::MAX);
        if bound_ms == 0 {
            return Duration::ZERO;
        }
        let mut hash = Sha256::new();
        hash.update(agent.as_str().as_bytes());
        hash.update([0]);
        hash.update(nominal.as_millisecond().to_be_bytes());
        let digest = hash.finalize();
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        Duration::from_millis(u64::from_be_bytes(bytes) % bound_ms)
    }
}
