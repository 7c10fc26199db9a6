//! What keeps the time limits of requests cheap.
//!
//! An executor waits for input until the first of its timers is due. Whoever sets one that is due before all others
//! wakes up the thread that waits, so that it waits for less: for a request that is answered within a millisecond
//! that is a good part of all it costs. So a timer that is due before those of requests runs for as long as there
//! are any, and no longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// Shorter than any time limit, and long enough to cost nothing.
const PERIOD: Duration = Duration::from_millis(500);

/// Nobody asks, and no timer runs.
const STILL: u8 = 0;
/// A timer runs, and somebody has asked since it was set. In between, nobody has.
const BEATING: u8 = 2;

/// The timer, if there is one.
#[derive(Default)]
pub(crate) struct Pulse(Arc<AtomicU8>);

impl Pulse {
    /// There is a request.
    pub(crate) fn beat(&self) {
        if self.0.load(Ordering::Relaxed) != BEATING && self.0.swap(BEATING, Ordering::AcqRel) == STILL {
            // Ends by itself, soon after the last request.
            drop(tokio::spawn(go_on(Arc::clone(&self.0))));
        }
    }
}

async fn go_on(state: Arc<AtomicU8>) {
    loop {
        sleep(PERIOD).await;
        let slower = |state| (state > STILL).then(|| state - 1);
        if state.fetch_update(Ordering::AcqRel, Ordering::Acquire, slower) != Ok(BEATING) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_goes_on_while_there_are_requests_and_ends_after_the_last() {
        let pulse = Pulse::default();
        pulse.beat();
        pulse.beat();
        assert_eq!(Arc::strong_count(&pulse.0), 2, "one timer for all");
        while pulse.0.load(Ordering::Relaxed) != STILL {
            sleep(PERIOD / 10).await;
        }
        pulse.beat();
        assert_eq!(pulse.0.load(Ordering::Relaxed), BEATING, "the next request sets it anew");
    }
}
