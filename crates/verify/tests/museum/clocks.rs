//! Flaws of clocks.

use bell_store::Timestamp;
use bell_store::clock::wall;

use crate::exhibit::Flaw;

/// Runs twice as fast as it should: a ttl is half of what was asked for.
pub(crate) struct Fast;

impl Flaw for Fast {
    fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_ms(now.as_ms() * 2)
    }
}

/// The wall clock of whoever asks.
pub(crate) struct Wall;

impl Flaw for Wall {
    fn time(&self, _now: Timestamp) -> Timestamp {
        Timestamp::from_ms(u64::try_from(wall().as_millis()).unwrap())
    }
}

/// Jumps a minute ahead every other second.
pub(crate) struct Jumping;

impl Flaw for Jumping {
    fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_ms(now.as_ms() + now.as_ms() / 2_000 * 60_000)
    }
}

/// Goes back by a fifth of a second, once a second.
pub(crate) struct Backward;

impl Flaw for Backward {
    fn time(&self, now: Timestamp) -> Timestamp {
        let is_back = (now.as_ms() / 500).is_multiple_of(2);
        Timestamp::from_ms(now.as_ms() - if is_back { 200 } else { 0 })
    }
}
