//! Chance that can be repeated: what a client does next, which connections lose their data.

use std::time::Duration;

/// Numbers that look random and follow from a seed (xorshift).
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring numbers, and the state must not be zero.
        Self { state: (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % limit.max(1)
    }

    /// Whether a chance of one in `count` comes true.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A span of this many milliseconds, or any between.
    pub fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
        let roll = |seed| {
            let mut dice = Dice::new(seed);
            [0; 8].map(|_: u32| dice.below(1_000))
        };
        assert_eq!(roll(1), roll(1));
        assert_ne!(roll(1), roll(2));
        assert!(roll(3).iter().all(|number| *number < 1_000));
    }
}
