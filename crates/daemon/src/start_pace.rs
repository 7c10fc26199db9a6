//! How fast this machine claims: slower while nothing of what it claims can be started.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_core::work::job::start_backoff;
use tokio::time::{Instant, sleep_until};

/// The longest wait before the next claim. Every job has a back-off of its own, so this only keeps a machine in trouble from
/// taking one job after another from those that are well. Longer would hold up agents whose runs can be started.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Waits between claims, which grow with each start that fails for a reason that passes.
#[derive(Default)]
pub(crate) struct StartPace {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failures: u32,
    until: Option<Instant>,
}

impl StartPace {
    /// A run was started: the trouble is over.
    pub(crate) fn started(&self) {
        *self.state() = State::default();
    }

    /// A run could not be started because of trouble that passes. Several that fail together count once.
    pub(crate) fn not_started(&self) {
        let mut state = self.state();
        let now = Instant::now();
        if state.until.is_none_or(|until| until <= now) {
            state.failures = state.failures.saturating_add(1);
            state.until = Some(now + start_backoff(state.failures).min(WAIT_MAX));
        }
    }

    /// Returns when the next claim may be made.
    pub(crate) async fn may_claim(&self) {
        let until = self.state().until;
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn claims_wait_longer_with_every_start_that_fails_and_not_at_all_after_one_that_does_not() {
        let pace = StartPace::default();
        let mut waits = Vec::new();
        for _ in 0..6 {
            pace.not_started();
            pace.not_started();
            let asked = Instant::now();
            pace.may_claim().await;
            waits.push(asked.elapsed().as_millis());
        }
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 5_000, 5_000]);
        pace.not_started();
        pace.started();
        let asked = Instant::now();
        pace.may_claim().await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }
}
