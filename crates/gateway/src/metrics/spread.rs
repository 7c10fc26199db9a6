//! A histogram that others' buckets can be added to: what supervisors and stores have counted comes in buckets.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// A histogram. Clones are the one histogram.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    bounds: &'static [f64],
    counted: Arc<Mutex<Counted>>,
}

#[derive(Clone, PartialEq, Debug)]
struct Counted {
    sum_seconds: f64,
    /// One for each bound, and a last one for the rest; each without those before it.
    buckets: Vec<u64>,
}

impl Spread {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        let counted = Counted { sum_seconds: 0.0, buckets: vec![0; bounds.len() + 1] };
        Self { bounds, counted: Arc::new(Mutex::new(counted)) }
    }

    pub(crate) fn observe(&self, seconds: f64) {
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        let mut counted = self.lock();
        counted.buckets[place] += 1;
        counted.sum_seconds += seconds;
    }

    /// Adds what another has counted, in buckets of the same bounds.
    pub(crate) fn add(&self, sum_seconds: f64, buckets: &[u64]) {
        let mut counted = self.lock();
        counted.sum_seconds += sum_seconds;
        for (mine, theirs) in counted.buckets.iter_mut().zip(buckets) {
            *mine += theirs;
        }
    }

    /// Shows what another has counted from the beginning.
    pub(crate) fn set(&self, sum_seconds: f64, buckets: Vec<u64>) {
        *self.lock() = Counted { sum_seconds, buckets };
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TypedMetric for Spread {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Spread {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let counted = self.lock().clone();
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counted.buckets.iter().copied()).collect();
        let count = counted.buckets.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(counted.sum_seconds, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
