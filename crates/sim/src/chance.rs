//! Randomness from a seed: the same seed, the same story.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A stream of random numbers (SplitMix64). Everything random in a story comes from one.
pub struct Chance(Mutex<u64>);

impl Chance {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// A stream of its own, so that what one part draws does not change what another gets.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::new(self.next())
    }

    /// Any number.
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A number from `-most` to `most`.
    pub fn around_zero(&self, most: u64) -> i64 {
        i64::try_from(self.between(0, 2 * most)).unwrap_or(0) - i64::try_from(most).unwrap_or(0)
    }

    /// True once in `times` on average.
    pub fn one_in(&self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }

    /// Between so many milliseconds.
    pub fn ms(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// One of these; there must be one.
    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        let last = u64::try_from(from.len().saturating_sub(1)).unwrap_or(u64::MAX);
        &from[usize::try_from(self.between(0, last)).unwrap_or(0)]
    }

    /// Fills this with random bytes.
    pub fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_gives_others() {
        let numbers = |seed| {
            let chance = Chance::new(seed);
            (0..8).map(|_| chance.next()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_both() {
        let chance = Chance::new(1);
        let drawn: Vec<i64> = (0..200).map(|_| chance.around_zero(2)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&-2), Some(&2)));
    }
}
