//! Whether the wall clock was set: it is compared with the time since boot, which can't be.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A clock that differs by less was not set but disciplined: what is decided up to so much late is on time all the same.
const SET_BY_MIN: SignedDuration = SignedDuration::from_secs(10);

/// What the clocks showed when they were last looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallWatch {
    wall: Timestamp,
    since_boot: Duration,
}

/// What became of the wall clock since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wall {
    /// It went on.
    WentOn,
    /// It was set. It would show `expected` otherwise.
    Set {
        /// What it would show.
        expected: Timestamp,
    },
}

impl WallWatch {
    pub(crate) fn new(wall: Timestamp, since_boot: Duration) -> Self {
        Self { wall, since_boot }
    }

    /// Looks again.
    pub(crate) fn look(&mut self, wall: Timestamp, since_boot: Duration) -> Wall {
        let elapsed = since_boot.saturating_sub(self.since_boot);
        let expected = self.wall.saturating_add(elapsed).unwrap_or(wall);
        *self = Self { wall, since_boot };
        if wall.duration_since(expected).abs() < SET_BY_MIN { Wall::WentOn } else { Wall::Set { expected } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_is_disciplined_and_from_a_long_sleep() {
        let mut watch = WallWatch::new(at(0), s(100));
        assert_eq!(watch.look(at(23), s(120)), Wall::WentOn);
        assert_eq!(watch.look(at(7_223), s(7_320)), Wall::WentOn, "the machine slept");
        assert_eq!(watch.look(at(10_833), s(7_330)), Wall::Set { expected: at(7_233) });
        assert_eq!(watch.look(at(10_843), s(7_340)), Wall::WentOn);
        assert_eq!(watch.look(at(7_253), s(7_350)), Wall::Set { expected: at(10_853) });
    }
}
