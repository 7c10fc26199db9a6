//! Flaws of fences.

use bell_store::Revision;

use crate::exhibit::Flaw;

/// Counts from one whenever it is opened.
pub(crate) struct CounterInMemory {
    pub(crate) opened_at: Revision,
}

impl Flaw for CounterInMemory {
    fn fence(&self, revision: Revision) -> Revision {
        revision.saturating_sub(self.opened_at) + 1
    }
}

/// The same for everything that happens within one tick.
pub(crate) struct Coarse;

impl Flaw for Coarse {
    fn fence(&self, revision: Revision) -> Revision {
        revision / 32 + 1
    }
}
