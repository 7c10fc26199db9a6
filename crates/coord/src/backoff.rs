//! Pauses between tries at a store that does not say what became of a commit.
//!
//! A connection that broke once is settled by looking again at once. A disk that fails with each commit would be asked
//! thousands of times a second otherwise, by callers who wait for an answer that can't come.

use std::time::Duration;

use crate::fresh;

/// Commits without a known outcome, one after the other, before the caller is told. With the pauses between them that takes
/// up to a second and a half: less than the 5 s between two renewals of a session.
const MAX_IN_DOUBT: u32 = 6;

/// The pause before the third try; each one after it is twice as long. The second try follows at once: most often the answer
/// was lost, and not the disk.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Tries of one decision whose outcome was not known.
#[derive(Default)]
pub(crate) struct InDoubt {
    tries: u32,
}

/// What to do after a commit whose outcome is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Look again after this pause.
    After(Duration),
    /// Tell the caller.
    GiveUp,
}

impl InDoubt {
    /// Counts one more.
    pub(crate) fn next(&mut self) -> Next {
        self.tries += 1;
        match self.tries {
            MAX_IN_DOUBT.. => Next::GiveUp,
            1 => Next::After(Duration::ZERO),
            tries => Next::After(FIRST_PAUSE * (1 << (tries - 2))),
        }
    }

    /// Whether there was one.
    pub(crate) fn is_any(&self) -> bool {
        self.tries > 0
    }
}

/// Waits for between half of `pause` and all of it, so that those who failed together do not come back together.
pub(crate) async fn wait(pause: Duration) {
    if pause > Duration::ZERO {
        let half = pause / 2;
        tokio::time::sleep(half + half.mul_f64(fresh::fraction())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_bounded_and_pauses_grow() {
        let mut doubt = InDoubt::default();
        let pauses = std::array::from_fn(|_| match doubt.next() {
            Next::After(pause) => Some(pause.as_millis()),
            Next::GiveUp => None,
        });
        assert_eq!(pauses, [Some(0), Some(50), Some(100), Some(200), Some(400), None]);
    }
}
