//! Looks at everything that happens, in the one order in which it happens, and stops at the first thing that is wrong.

use bell_core::time::{Revision, Timestamp};
use bell_store::{Name, Write};

use crate::invariants::Invariant;
use crate::journal::{Event, Journal};
use crate::state::State;
use crate::tally::Tally;

/// An invariant that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Its name.
    pub invariant: &'static str,
    /// What is wrong.
    pub message: String,
}

/// The state, the invariants, and what happened.
pub struct Checker {
    state: State,
    invariants: Vec<Box<dyn Invariant>>,
    journal: Journal,
    tally: Tally,
    broken: Option<Broken>,
}

impl Checker {
    /// Checks these.
    pub fn new(invariants: Vec<Box<dyn Invariant>>, journal: Journal) -> Self {
        Self { state: State::default(), invariants, journal, tally: Tally::default(), broken: None }
    }

    /// The store has applied a commit of this caller.
    pub(crate) fn commit(&mut self, who: &str, revision: Revision, now: Timestamp, writes: &[(Name, Write)]) {
        if self.broken.is_some() || writes.is_empty() {
            return;
        }
        self.journal.commit(now, who, revision, writes);
        match self.state.apply(revision, now, writes) {
            Ok(changes) => self.look(&Event::Committed(&changes)),
            Err(message) => self.broken = Some(Broken { invariant: "records_can_be_read", message }),
        }
    }

    /// Something happened outside the store.
    pub(crate) fn happened(&mut self, who: &str, now: Timestamp, event: &Event<'_>) {
        if self.broken.is_none() {
            self.state.now = now;
            self.journal.note(now, || format!("{who}: {event}"));
            self.look(event);
        }
    }

    /// Something was done to the fleet, or to a message.
    pub(crate) fn note(&mut self, now: Timestamp, what: &'static str, words: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.tally.count(what);
            self.journal.note(now, words);
        }
    }

    fn look(&mut self, event: &Event<'_>) {
        self.tally.look(event);
        for invariant in &mut self.invariants {
            if let Err(message) = invariant.look(event, &self.state) {
                self.broken = Some(Broken { invariant: invariant.name(), message });
                return;
            }
        }
    }

    /// What is not as it must be when the fleet has come to rest.
    pub(crate) fn unrest(&mut self, now: Timestamp) -> Option<Broken> {
        self.state.now = now;
        // What heals comes last in the list, and names what is left best; the others say what it means.
        self.invariants.iter_mut().rev().find_map(|invariant| {
            let message = invariant.finally(&self.state).err()?;
            Some(Broken { invariant: invariant.name(), message })
        })
    }

    pub(crate) fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}
