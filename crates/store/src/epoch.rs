//! Revisions above all that a store may have given out, for one that was set back to an older copy.
//!
//! The copy can't know how far the store had come, so the number is taken from the wall clock. It is read once, when an
//! operator asks for it, and never compared with another host's.

use std::time::Duration;

use crate::Revision;

/// Revisions for each millisecond: more than any store on files commits in one, so what was begun later is above what was
/// begun earlier, also if the same copy is brought back again and again. Until the year 2248 they are exact as JSON numbers.
const PER_MS: u64 = 1 << 10;

/// How far it goes up where the clock does not help, since it was ahead before or is wrong now.
const STEP: u64 = 1 << 40;

/// The revision that a new epoch begins with, for a store that is at `revision` when the wall clock shows `wall`.
pub fn raised(revision: Revision, wall: Duration) -> Revision {
    let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    revision.saturating_add(STEP).max(wall_ms.saturating_mul(PER_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_795_000_000);

    #[test]
    fn a_copy_that_is_brought_back_twice_begins_higher_the_second_time() {
        let copy = 12;
        let busiest = raised(copy, NOW) + 1_000 * 3_600_000;
        assert!(raised(copy, NOW + Duration::from_secs(3_600)) > busiest);
    }

    #[test]
    fn it_goes_up_whatever_the_clock_shows() {
        let ahead = raised(12, NOW + Duration::from_secs(400 * 86_400));
        assert!(raised(ahead, NOW) > ahead && raised(ahead, Duration::ZERO) > ahead);
    }

    #[test]
    fn json_readers_with_doubles_can_tell_it() {
        assert!(raised(12, NOW) < 1 << 53);
    }
}
