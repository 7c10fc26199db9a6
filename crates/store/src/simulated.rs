//! A machine that exists only in a simulation: its clocks, its randomness, and what it does beside its tasks.
//!
//! While code runs [on](on()) such a machine, the clocks of [`crate::clock`] are the machine's, and so are the
//! random bytes and the background thread of the crates above. Only a simulator makes one, behind the feature
//! `simulated`; it is what lets the same code live through a day, and through the same day again, in a moment.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Something that a machine does in the background.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What code asks of the machine it runs on.
pub trait Machine: Send + Sync {
    /// As [`crate::clock::boottime`].
    fn boottime(&self) -> Duration;

    /// As [`crate::clock::wall`].
    fn wall(&self) -> Duration;

    /// Fills this with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// Does this in the background for as long as the process lives.
    fn keep(&self, task: Task);
}

thread_local! {
    static HERE: RefCell<Option<Arc<dyn Machine>>> = const { RefCell::new(None) };
}

/// Acts on this machine. Of a future, that is one poll.
pub fn on<R>(machine: &Arc<dyn Machine>, act: impl FnOnce() -> R) -> R {
    let _back = Back(HERE.replace(Some(Arc::clone(machine))));
    act()
}

/// The machine this runs on; `None`: the real one.
pub fn here() -> Option<Arc<dyn Machine>> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

/// Goes back to the machine before, also when a test fails half-way.
struct Back(Option<Arc<dyn Machine>>);

impl Drop for Back {
    fn drop(&mut self) {
        HERE.replace(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{boottime, wall};

    struct Stopped(Duration);

    impl Machine for Stopped {
        fn boottime(&self) -> Duration {
            self.0
        }

        fn wall(&self) -> Duration {
            self.0 * 2
        }

        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }

        fn keep(&self, _task: Task) {}
    }

    #[test]
    fn clocks_are_those_of_the_machine_and_the_real_ones_again_afterwards() {
        let outer: Arc<dyn Machine> = Arc::new(Stopped(Duration::from_secs(1)));
        let inner: Arc<dyn Machine> = Arc::new(Stopped(Duration::from_secs(2)));
        on(&outer, || {
            on(&inner, || assert_eq!(boottime(), Duration::from_secs(2)));
            assert_eq!((boottime(), wall()), (Duration::from_secs(1), Duration::from_secs(2)));
        });
        assert!(here().is_none());
        assert!(wall() > Duration::from_secs(1_000_000_000));
    }
}
