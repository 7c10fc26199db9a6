//! Noticing that the server's clock has jumped.
//!
//! The store's clock is the server's, plus an offset that is stored. Leases are judged by it, so a server whose
//! clock is set an hour ahead would free every lock at once. Each process knows from its own boot clock
//! how much time can have passed between two answers, whatever the network did; an answer outside of that is
//! a jump, and the offset is changed to take it back. A process that has only just come can't notice.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bell_store::Timestamp;

use crate::link::REQUEST_LIMIT;

/// Two clocks that are this much apart in rate are still taken for good ones (NTP slews by half of it).
const DRIFT_PER_MILLE: i64 = 1;

/// What reading two clocks one after the other, in milliseconds, may be off.
const ROUNDING_MS: i64 = 5;

/// Smaller steps ahead are no jump. What a holder keeps in reserve covers them.
const SMALL_STEP_MS: i64 = 60;

/// When a request left and when its answer had come, on this machine's boot clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) sent: Duration,
    pub(crate) received: Duration,
}

/// A time that the server told, with the offset it was made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) now_ms: i64,
    pub(crate) offset_ms: i64,
}

/// A change of the stored offset that takes a jump back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repair {
    pub(crate) seen_offset_ms: i64,
    pub(crate) shift_ms: i64,
}

/// What this process knows of the store's clock.
#[derive(Default)]
pub(crate) struct Timekeeper {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    last: Option<(Span, Told)>,
    repaired: Option<Repair>,
    highest_ms: i64,
}

impl Timekeeper {
    /// The time to hand out for an answer, and what to repair first if the server's clock has jumped.
    pub(crate) fn judge(&self, span: Span, told: Told) -> (Timestamp, Option<Repair>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let repair = known.needed(span, told);
        let shift_ms = repair.map_or(0, |repair| repair.shift_ms);
        let judged = Told { now_ms: told.now_ms + shift_ms, offset_ms: told.offset_ms + shift_ms };
        if known.last.is_none_or(|(last, _)| last.received < span.received) {
            known.last = Some((span, judged));
        }
        known.repaired = repair.or(known.repaired);
        known.highest_ms = known.highest_ms.max(judged.now_ms);
        (Timestamp::from_ms(u64::try_from(known.highest_ms).unwrap_or(0)), repair)
    }

    /// The offset that was last told.
    pub(crate) fn offset_ms(&self) -> i64 {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.last.map_or(0, |(_, told)| told.offset_ms)
    }

    /// The latest that the store's clock can show when a request sent now is worked on.
    pub(crate) fn latest_ms(&self, sent: Duration) -> i64 {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.last.map_or(i64::MAX, |(span, told)| {
            let passed_ms = between_ms(span.sent, sent);
            told.now_ms + passed_ms + drift_ms(passed_ms) + SMALL_STEP_MS + ms(REQUEST_LIMIT)
        })
    }
}

impl Known {
    fn needed(&self, span: Span, told: Told) -> Option<Repair> {
        let (last_span, last) = self.last?;
        let most_ms = between_ms(last_span.sent, span.received);
        let least_ms = between_ms(last_span.received, span.sent);
        let earliest_ms = last.now_ms + least_ms - drift_ms(least_ms) - ROUNDING_MS;
        let latest_ms = last.now_ms + most_ms + drift_ms(most_ms) + SMALL_STEP_MS;
        let is_possible = |now_ms| (earliest_ms..=latest_ms).contains(&now_ms);
        if is_possible(told.now_ms) {
            return None;
        }
        if told.offset_ms == last.offset_ms {
            // To the earliest possible time: a lease that ends late does no harm.
            let shift_ms = last.now_ms + least_ms.max(0) - told.now_ms;
            return Some(Repair { seen_offset_ms: told.offset_ms, shift_ms });
        }
        // An answer from before our repair. Any other offset was set by somebody who knew why.
        let is_stale = |repair: &Repair| {
            repair.seen_offset_ms == told.offset_ms && is_possible(told.now_ms + repair.shift_ms)
        };
        self.repaired.filter(is_stale)
    }
}

/// How long after `earlier` a moment is; below zero if it is before.
fn between_ms(earlier: Duration, later: Duration) -> i64 {
    ms(later) - ms(earlier)
}

fn drift_ms(passed_ms: i64) -> i64 {
    passed_ms.abs() * DRIFT_PER_MILLE / 1_000
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const NOON_MS: i64 = 1_800_000_000_000;

    fn span(sent_ms: u64, received_ms: u64) -> Span {
        Span { sent: Duration::from_millis(sent_ms), received: Duration::from_millis(received_ms) }
    }

    fn told(now_ms: i64) -> Told {
        Told { now_ms, offset_ms: 0 }
    }

    /// Asked at 1,000 and answered at 1,010 on the boot clock, when it was noon.
    fn at_noon() -> Timekeeper {
        let clock = Timekeeper::default();
        assert_eq!(clock.judge(span(1_000, 1_010), told(NOON_MS)).1, None);
        clock
    }

    #[test]
    fn an_answer_that_took_long_is_no_jump() {
        assert_eq!(at_noon().judge(span(2_000, 6_000), told(NOON_MS + 4_900)).1, None);
        assert_eq!(at_noon().judge(span(2_000, 6_000), told(NOON_MS + 991)).1, None);
    }

    #[test]
    fn an_hour_ahead_is_taken_back() {
        let clock = at_noon();
        let (now, repair) = clock.judge(span(2_010, 2_020), told(NOON_MS + 1_000 + HOUR_MS));
        assert_eq!(now.as_ms(), (NOON_MS + 1_000).unsigned_abs());
        assert_eq!(repair, Some(Repair { seen_offset_ms: 0, shift_ms: -HOUR_MS }));
    }

    #[test]
    fn an_hour_back_is_made_up_for() {
        let clock = at_noon();
        let (now, repair) = clock.judge(span(2_010, 2_020), told(NOON_MS + 1_000 - HOUR_MS));
        assert_eq!(now.as_ms(), (NOON_MS + 1_000).unsigned_abs());
        assert_eq!(repair, Some(Repair { seen_offset_ms: 0, shift_ms: HOUR_MS }));
    }

    #[test]
    fn a_clock_that_somebody_else_repaired_is_taken_as_it_is() {
        let clock = at_noon();
        let repaired = Told { now_ms: NOON_MS + 9_000, offset_ms: -HOUR_MS };
        assert_eq!(clock.judge(span(2_010, 2_020), repaired).1, None);
    }

    #[test]
    fn after_a_repair_the_next_answer_is_as_expected() {
        let clock = at_noon();
        clock.judge(span(2_010, 2_020), told(NOON_MS + 1_000 + HOUR_MS));
        let next = Told { now_ms: NOON_MS + 2_000, offset_ms: -HOUR_MS };
        assert_eq!(clock.judge(span(3_010, 3_020), next).1, None);
    }

    #[test]
    fn an_answer_from_before_the_repair_is_repaired_alike() {
        let clock = at_noon();
        let (_, repair) = clock.judge(span(2_010, 2_020), told(NOON_MS + 1_000 + HOUR_MS));
        let (now, again) = clock.judge(span(2_010, 2_030), told(NOON_MS + 1_010 + HOUR_MS));
        assert_eq!((now.as_ms(), again), ((NOON_MS + 1_010).unsigned_abs(), repair));
    }

    #[test]
    fn answers_may_overtake_each_other() {
        let clock = at_noon();
        assert_eq!(clock.judge(span(500, 4_000), told(NOON_MS - 400)).1, None);
        assert_eq!(clock.judge(span(900, 3_000), told(NOON_MS + 1_900)).1, None);
    }

    #[test]
    fn the_time_handed_out_never_goes_back() {
        let clock = at_noon();
        assert_eq!(clock.judge(span(1_010, 1_020), told(NOON_MS - 3)).0.as_ms(), NOON_MS.unsigned_abs());
    }

    #[test]
    fn a_day_of_drift_is_no_jump() {
        let day_ms = 24 * HOUR_MS;
        let clock = at_noon();
        let later = 1_010 + day_ms.unsigned_abs();
        assert_eq!(clock.judge(span(later, later + 10), told(NOON_MS + day_ms + day_ms / 2_000)).1, None);
    }

    #[test]
    fn a_commit_may_come_to_its_turn_as_late_as_a_request_may_take() {
        let limit_ms = ms(REQUEST_LIMIT);
        let latest_ms = at_noon().latest_ms(Duration::from_millis(2_000));
        assert_eq!(latest_ms, NOON_MS + 1_000 + 1 + SMALL_STEP_MS + limit_ms);
        assert_eq!(Timekeeper::default().latest_ms(Duration::ZERO), i64::MAX);
    }
}
