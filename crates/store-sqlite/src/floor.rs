//! The highest revision that this process has seen: a file that answers with a lower one was set back while it is open.
//!
//! Its contents can be replaced under the same name, by a restore into the open database. It gives fences again then that it
//! gave before, until its epoch is raised.

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bell_store::{Kind, Revision};

use crate::fault::Fault;

/// The highest revision seen.
#[derive(Default)]
pub(crate) struct Floor(AtomicU64);

impl Floor {
    /// The revision that an answer asked for from now on has at least.
    pub(crate) fn now(&self) -> Revision {
        self.0.load(Ordering::Acquire)
    }

    /// # Errors
    /// [`Kind::Rewound`] if `found` is below `floor`, which was taken before the file was asked: answers of two threads may
    /// arrive in another order than they were found.
    pub(crate) fn check(floor: Revision, found: Revision) -> Result<(), Fault> {
        if found >= floor { Ok(()) } else { Err(Fault::new(Kind::Rewound, WentBack { floor, found })) }
    }

    /// Takes in a revision that is durable.
    pub(crate) fn raise(&self, seen: Revision) {
        self.0.fetch_max(seen, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct WentBack {
    floor: Revision,
    found: Revision,
}

impl fmt::Display for WentBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { floor, found } = self;
        write!(f, "the store went back in time: revision {floor} was seen, and now it is at {found}")
    }
}

impl StdError for WentBack {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_below_what_was_seen_before_it_was_asked_for_is_refused() {
        let floor = Floor::default();
        let asked = floor.now();
        floor.raise(9);
        floor.raise(7);
        assert!(Floor::check(asked, 8).is_ok(), "it was asked for before");
        assert_eq!(Floor::check(floor.now(), 8).map_err(|fault| fault.kind), Err(Kind::Rewound));
        assert!(Floor::check(floor.now(), 9).is_ok());
    }
}
