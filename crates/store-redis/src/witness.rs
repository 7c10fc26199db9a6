//! Whether the server's clock has jumped, judged by this machine's.
//!
//! The store's clock is the server's wall clock plus an offset that is kept with the records. A server whose
//! clock is set forward by an hour would end every lease an hour early, so no jump is believed:
//!
//! - **Forward.** Every process compares the times it is told with CLOCK_BOOTTIME. Between two answers no more
//!   time can have passed than between sending the earlier question and getting the later answer. A time
//!   beyond that is a jump: the process takes it out of the offset (`absorb.lua`, only if the offset is still
//!   the one it saw) and asks again, so that nobody above ever sees it. A commit decided before the jump
//!   conflicts by the rule on its own time ([`bell_store::txn::MAX_LAG`]), so none slips through.
//! - **Back.** Commits and `watch.lua` record the time. A server's clock below the recorded one was set back;
//!   the offset is corrected so that time goes on from where it was.
//!
//! What this can't do: a jump while no process is connected looks like time that passed, and a process that
//! connects within seconds after a jump, before any other has noticed, believes it. A step back that stays
//! above the recorded time is not noticed: the clock then repeats at most the few seconds since.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The difference that is believed at once. With the lag that a commit may have it stays below what the holder
/// of a lease keeps in reserve.
const TOLERANCE: Duration = Duration::from_millis(50);

/// Two clocks that tick at their own pace differ by less than 1 in this many.
const DRIFT: u32 = 2_000;

/// A told time is compared with for this long: replaced with every answer, small steps would add up unseen.
const ANCHOR_AGE: Duration = Duration::from_secs(10);

/// A time beyond all that can have passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Jump {
    /// How far beyond.
    pub(crate) by: Duration,
}

/// The last time the store told, and when, on this machine's boot clock.
#[derive(Default)]
pub(crate) struct Witness {
    anchor: Mutex<Option<Told>>,
}

/// A time that the store told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) now_ms: u64,
    /// Before the question left.
    pub(crate) sent: Duration,
    /// After the answer came.
    pub(crate) arrived: Duration,
}

impl Witness {
    /// Whether this can be true. If so, it is what later times are compared with.
    pub(crate) fn judge(&self, told: Told) -> Result<(), Jump> {
        let mut anchor = self.lock();
        let Some(since) = *anchor else {
            *anchor = Some(told);
            return Ok(());
        };
        let latest = since.latest(told.arrived);
        if told.now_ms > latest {
            return Err(Jump { by: Duration::from_millis(told.now_ms - latest) });
        }
        if told.arrived.saturating_sub(since.arrived) > ANCHOR_AGE || told.now_ms < since.now_ms {
            *anchor = Some(told);
        }
        Ok(())
    }

    /// Takes this for true, whatever was told before.
    pub(crate) fn follow(&self, told: Told) {
        *self.lock() = Some(told);
    }

    /// The earliest that the store's clock can be showing at this moment.
    pub(crate) fn earliest(&self, moment: Duration) -> Option<u64> {
        (*self.lock()).map(|told| told.earliest(moment))
    }

    /// The latest that the store's clock can be showing at this moment.
    pub(crate) fn latest(&self, moment: Duration) -> Option<u64> {
        (*self.lock()).map(|told| told.latest(moment))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Told>> {
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn earliest(&self, moment: Duration) -> u64 {
        let passed = moment.saturating_sub(self.arrived);
        self.now_ms + ms(passed.saturating_sub(passed / DRIFT))
    }

    fn latest(&self, moment: Duration) -> u64 {
        let passed = moment.saturating_sub(self.sent);
        self.now_ms + ms(passed + passed / DRIFT + TOLERANCE)
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Told this, a tenth of a second after asking.
    fn told(now_ms: u64, sent: Duration) -> Told {
        Told { now_ms, sent, arrived: sent + Duration::from_millis(100) }
    }

    fn anchored() -> Witness {
        let witness = Witness::default();
        witness.judge(told(1_000_000, at(100))).unwrap();
        witness
    }

    #[test]
    fn the_first_time_is_believed() {
        assert_eq!(Witness::default().judge(told(u64::MAX / 2, at(1))), Ok(()));
    }

    #[test]
    fn time_that_can_have_passed_is_believed_also_after_a_slow_answer() {
        let slow = Told { now_ms: 1_004_900, sent: at(101), arrived: at(105) };
        assert_eq!(anchored().judge(slow), Ok(()));
    }

    #[test]
    fn more_time_than_can_have_passed_is_a_jump() {
        let jump = anchored().judge(told(1_000_000 + 3_600_000 + 1_000, at(101))).unwrap_err();
        assert_eq!(jump.by.as_secs(), 3_599);
    }

    #[test]
    fn a_jump_is_not_what_later_times_are_compared_with() {
        let witness = anchored();
        witness.judge(told(9_000_000, at(101))).unwrap_err();
        witness.judge(told(9_000_000, at(101))).unwrap_err();
        assert_eq!(witness.judge(told(1_001_000, at(101))), Ok(()));
    }

    #[test]
    fn small_steps_do_not_add_up() {
        let witness = anchored();
        let step = |count: u64| told(1_000_000 + count * 1_040, at(100 + count));
        let believed = (1..9).take_while(|count| witness.judge(step(*count)).is_ok()).count();
        assert!(believed < 8, "a clock that runs 4 % fast was believed for {believed} s");
    }

    #[test]
    fn the_store_s_clock_lies_between_the_earliest_and_the_latest() {
        let witness = anchored();
        let (earliest, latest) = (witness.earliest(at(102)).unwrap(), witness.latest(at(102)).unwrap());
        assert_eq!((earliest, latest), (1_001_899, 1_002_051));
    }

    #[test]
    fn a_clock_that_was_corrected_back_is_followed() {
        let witness = anchored();
        assert_eq!(witness.judge(told(990_000, at(101))), Ok(()));
        assert!(witness.judge(told(1_001_000, at(102))).is_err());
    }
}
