//! An expression in a time zone: the moments at which it fires.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::expression::{Expression, Hours};
use crate::settings::Zone;

/// Changes of a zone's clock that one search looks across. The rarest expressions fire every 40 years, and no
/// zone changes more than a few times in one of them.
const CHANGES_MAX: usize = 2_000;
/// Times of the clock that one search passes over because they came earlier: the minutes of the longest hour
/// or day that a zone has repeated, and a few.
const PASSED_MAX: usize = 3_000;

/// When something is due.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    expression: Expression,
    zone: Zone,
}

impl Schedule {
    /// An expression as clocks in a zone show it.
    pub fn new(expression: Expression, zone: Zone) -> Self {
        Self { expression, zone }
    }

    /// The expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first moment strictly after `after` at which it fires; none if that is beyond the calendar.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self.expression.hours() {
            Hours::Fixed => self.next_fixed(after),
            Hours::Every => self.next_in_real_time(after),
        }
    }

    /// The next `count` moments after `after`.
    pub fn next(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last)).take(count).collect()
    }

    /// The moments after `after`, up to and with `until`: at most `max`, the first ones.
    pub fn fires_between(&self, after: Timestamp, until: Timestamp, max: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
            .take_while(|fire| *fire <= until)
            .take(max)
            .collect()
    }

    /// Every time of the clock becomes one moment: itself, the first of two, or the end of the gap it falls
    /// into. Later times become later moments, or the same one, so the search only goes forward.
    fn next_fixed(&self, after: Timestamp) -> Option<Timestamp> {
        let zone = self.zone.get();
        let mut clock = zone.to_datetime(after);
        for _ in 0..PASSED_MAX {
            clock = self.expression.civil_after(clock)?;
            let fire = moment(zone, clock)?;
            if fire > after {
                return Some(fire);
            }
        }
        None
    }

    /// Between two changes of the clock it runs evenly, so the search goes from one to the next.
    fn next_in_real_time(&self, after: Timestamp) -> Option<Timestamp> {
        let zone = self.zone.get();
        let mut found = self.expression.civil_after(zone.to_datetime(after))?;
        let mut offset = zone.to_offset(after);
        let mut from = after;
        for _ in 0..CHANGES_MAX {
            let fire = offset.to_timestamp(found).ok()?;
            let change = zone.following(from).find(|change| change.offset() != offset);
            match change {
                Some(change) if change.timestamp() <= fire => {
                    from = change.timestamp();
                    offset = change.offset();
                    found = self.expression.civil_from(zone.to_datetime(from))?;
                }
                _ => return Some(fire),
            }
        }
        None
    }
}

/// The moment at which a clock shows this time first, or the moment after the gap that leaves it out.
fn moment(zone: &TimeZone, clock: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(clock);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(clock).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(clock).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the later offset the time lies before the change that made the gap.
            let early = after.to_timestamp(clock).ok()?;
            zone.following(early).next().map(|change| change.timestamp())
        }
    }
}
