//! What the store's clock must be showing now, so that a first guess needs no question.
//!
//! Every answer of the store carries its time. Counting on from the moment an answer arrived gives a time
//! that is never ahead of the store's, as long as both clocks run at about the same rate; the store itself
//! checks the guess with each commit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bell_core::lock::MIN_MARGIN;
use bell_core::time::Timestamp;
use bell_store::clock::boottime;
use bell_store::txn::MAX_LAG;

/// How long one answer may be counted on from. Two clocks 1,000 ppm apart differ by 30 ms then, well
/// inside what a holder keeps in reserve.
const MAX_AGE: Duration = Duration::from_secs(30);
const MAX_DRIFT: Duration = Duration::from_millis(30);
const _: () = assert!(MAX_LAG.as_millis() + MAX_DRIFT.as_millis() < MIN_MARGIN.as_millis());

/// The last time the store told.
#[derive(Default)]
pub(crate) struct StoreClock {
    told: Mutex<Option<Told>>,
}

#[derive(Clone, Copy)]
struct Told {
    now: Timestamp,
    /// On this machine's boot clock, when the answer had arrived.
    arrived: Duration,
}

impl StoreClock {
    /// Takes note of the time in an answer that has just arrived.
    pub(crate) fn told(&self, now: Timestamp) {
        let told = Told { now, arrived: boottime() };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// The store's time, at least; `None` if it has not told lately.
    pub(crate) fn estimate(&self) -> Option<Timestamp> {
        let told = (*self.told.lock().unwrap_or_else(PoisonError::into_inner))?;
        let age = boottime().saturating_sub(told.arrived);
        (age <= MAX_AGE).then(|| told.now + age)
    }
}
