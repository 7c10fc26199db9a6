//! From samples to figures.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

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
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
