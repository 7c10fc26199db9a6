//! From samples to figures.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::table::number;

/// How a latency is spread, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) samples: usize,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

impl Spread {
    /// Of these nanoseconds; `None` of nothing.
    pub(crate) fn of(mut samples_ns: Vec<u64>) -> Option<Self> {
        samples_ns.sort_unstable();
        let last = samples_ns.len().checked_sub(1)?;
        // The nearest rank: a value that did occur, and p99 of few samples is their largest.
        let rank = |percent: usize| (samples_ns.len() * percent).div_ceil(100).saturating_sub(1);
        let us = |place: usize| samples_ns[place] as f64 / 1_000.0;
        Some(Self { samples: samples_ns.len(), p50_us: us(rank(50)), p99_us: us(rank(99)), max_us: us(last) })
    }
}

/// What one did beside another, in rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) largest: f64,
}

impl Share {
    /// Of those of the rounds; `None` of none.
    pub(crate) fn of(rounds: Vec<f64>) -> Option<Self> {
        let least = rounds.iter().copied().reduce(f64::min)?;
        let largest = rounds.iter().copied().reduce(f64::max)?;
        Some(Self { least, median: median(&rounds)?, largest })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}–{})", number(self.median), number(self.least), number(self.largest))
    }
}

/// The one in the middle, or the mean of the two; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let above = *sorted.get(sorted.len() / 2)?;
    let below = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(below, above))
}

/// Nanoseconds of a span.
pub(crate) fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How often something happened in a second.
pub(crate) fn per_second(count: usize, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64()
}

/// CPU time that all threads of this process have used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let spread = Spread::of((1..=200).rev().map(|us| us * 1_000).collect()).unwrap();
        assert_eq!(spread, Spread { samples: 200, p50_us: 100.0, p99_us: 198.0, max_us: 200.0 });
    }

    #[test]
    fn the_99th_percentile_of_few_samples_is_the_largest() {
        assert_eq!(Spread::of(vec![5_000, 1_000]).unwrap().p99_us, 5.0);
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_share_is_shown_with_the_least_and_the_largest() {
        assert_eq!(Share::of(vec![1.0, 0.5, 2.0]).unwrap().to_string(), "1.00 (0.50–2.00)");
    }

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of(Vec::new()), None);
        assert_eq!(Share::of(Vec::new()), None);
    }
}
