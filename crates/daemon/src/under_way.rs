//! Whether runs are under way here that may not define the fleet: what is new in the project then may be theirs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bell_store::clock::boottime;

/// How many such runs there are, and when the latest of those before them ended, on the boot clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<Mutex<Count>>);

#[derive(Debug, Default)]
struct Count {
    runs: usize,
    ended: Option<Duration>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct OneMore(UnderWay);

impl UnderWay {
    /// Counts one more.
    pub(crate) fn one_more(&self) -> OneMore {
        self.with(|count| count.runs += 1);
        OneMore(self.clone())
    }

    /// Whether there was one at any time in so long a time before now.
    pub(crate) fn within(&self, before: Duration) -> bool {
        let since = boottime().saturating_sub(before);
        self.with(|count| count.runs > 0 || count.ended.is_some_and(|ended| ended >= since))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Count) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        self.0.with(|count| {
            count.runs -= 1;
            count.ended = Some(boottime());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_while_it_lasts_and_for_a_while_after() {
        let under_way = UnderWay::default();
        let hour = Duration::from_secs(3_600);
        assert!(!under_way.within(hour));
        let run = under_way.one_more();
        assert!(under_way.within(Duration::ZERO));
        drop(run);
        assert!(under_way.within(hour));
        assert!(!under_way.within(Duration::ZERO));
    }
}
