//! Which way a batch takes: the short one, a statement that commits it if nothing stands in its way, or the long one, the
//! procedure that judges each transaction and says why. The shortest is for one transaction, if nobody else uses the store.
//!
//! The short way costs about three quarters of the long one, and a round trip more if it turns out to be closed: somebody listens,
//! another process commits, an expectation does not hold. What closed it is likely to be there for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Batches that go the long way after the short one was closed: the round trip that was in vain is a small part of theirs.
const DETOURS: usize = 16;

/// Transactions that don't go the shortest way after somebody else turned out to commit too.
const IN_COMPANY: usize = 64;

/// The long way is taken this often at the least. It alone sees a server that has begun to wait for a standby, and
/// writes down that nothing can be lost any more.
const LONG_WAY_EVERY: Duration = Duration::from_secs(10);

/// The largest batch that goes the short way, in bytes of names and values. Its turn ends when the last word of the
/// request has arrived, so that all of it has to be with the server at once. A socket takes two of these in one piece, as many
/// as may be on the way (Linux gives a connection 87 kB to begin with), and 32 locks that are taken together fit into one.
const MAX_BYTES: usize = 16 << 10;

/// What is known of both ways.
#[derive(Default)]
pub(crate) struct Ways {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Batches still to go the long way.
    detours: usize,
    /// Transactions still not to go the shortest way.
    in_company: usize,
    /// On this machine's boot clock, when a batch last went the long way.
    long_way: Option<Duration>,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Short,
    Long,
}

impl Ways {
    /// The way for a batch of this many bytes, at this time.
    pub(crate) fn choose(&self, bytes: usize, now: Duration) -> Way {
        let mut seen = self.seen();
        if seen.needs_long_way(bytes, now) {
            seen.detours = seen.detours.saturating_sub(1);
            seen.long_way = Some(now);
            return Way::Long;
        }
        Way::Short
    }

    /// Whether one transaction of this many bytes may go the shortest way, at this time.
    pub(crate) fn is_alone(&self, bytes: usize, now: Duration) -> bool {
        let mut seen = self.seen();
        if seen.needs_long_way(bytes, now) {
            return false;
        }
        let is_alone = seen.in_company == 0;
        seen.in_company = seen.in_company.saturating_sub(1);
        is_alone
    }

    /// The way that the next batches are likely to go.
    pub(crate) fn likely(&self) -> Way {
        if self.seen().detours > 0 { Way::Long } else { Way::Short }
    }

    /// The short way, or the shortest, was closed.
    pub(crate) fn closed(&self) {
        self.seen().detours = DETOURS;
    }

    /// The shortest was closed only because somebody else had committed meanwhile, which closes no other.
    pub(crate) fn in_company(&self) {
        let mut seen = self.seen();
        (seen.detours, seen.in_company) = (0, IN_COMPANY);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn needs_long_way(&self, bytes: usize, now: Duration) -> bool {
        let is_due = self.long_way.is_none_or(|last| now.saturating_sub(last) >= LONG_WAY_EVERY);
        is_due || self.detours > 0 || bytes > MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    /// Ways of which the long one was just taken.
    fn ways() -> Ways {
        let ways = Ways::default();
        assert_eq!(ways.choose(0, NOW), Way::Long, "the first batch");
        ways
    }

    #[test]
    fn a_small_batch_goes_the_short_way() {
        let ways = ways();
        assert_eq!(ways.choose(MAX_BYTES, NOW), Way::Short);
        assert_eq!(ways.choose(MAX_BYTES + 1, NOW), Way::Long);
        assert_eq!(ways.choose(MAX_BYTES, NOW), Way::Short);
    }

    #[test]
    fn after_the_short_way_was_closed_it_is_left_alone_for_a_while() {
        let ways = ways();
        ways.closed();
        for _ in 0..DETOURS {
            assert_eq!(ways.likely(), Way::Long);
            assert_eq!(ways.choose(0, NOW), Way::Long);
        }
        assert_eq!(ways.likely(), Way::Short);
        assert_eq!(ways.choose(0, NOW), Way::Short);
    }

    #[test]
    fn the_long_way_is_taken_once_in_a_while() {
        let ways = ways();
        let late = NOW + LONG_WAY_EVERY;
        assert_eq!(ways.choose(0, late - Duration::from_millis(1)), Way::Short);
        assert_eq!(ways.choose(0, late), Way::Long);
        assert_eq!(ways.choose(0, late), Way::Short);
    }

    #[test]
    fn the_shortest_way_is_for_whoever_is_alone_with_the_store() {
        let ways = ways();
        assert!(ways.is_alone(MAX_BYTES, NOW) && !ways.is_alone(MAX_BYTES + 1, NOW));
        ways.closed();
        assert!(!ways.is_alone(0, NOW), "whatever closed it closes the short way too");
        ways.in_company();
        assert_eq!(ways.choose(0, NOW), Way::Short, "but somebody else's commit does not");
        for _ in 0..IN_COMPANY {
            assert!(!ways.is_alone(0, NOW));
        }
        assert!(ways.is_alone(0, NOW));
        assert!(!ways.is_alone(0, NOW + LONG_WAY_EVERY), "nor when the long way is due");
    }
}
