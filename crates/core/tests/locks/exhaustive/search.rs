//! Breadth first: the shortest way to break a rule is found first.

use std::collections::HashSet;

use super::node::{Event, Move, Node, Setting};
use crate::support::check::Broken;
use crate::support::world::Flaw;

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) conflicts: usize,
    pub(crate) deadlocks: usize,
    pub(crate) handovers: usize,
    /// A rule that does not hold, and what led there.
    pub(crate) broken: Option<(Broken, Vec<Move>)>,
}

/// Visits every state that at most so many actions lead to.
pub(crate) fn search(setting: Setting, flaw: Option<Flaw>, actions: usize) -> Found {
    let mut found = Found::default();
    let start = Node::start(setting, flaw);
    let mut seen = HashSet::from([start.canonical()]);
    let mut layer = vec![(start, Vec::new())];
    for left in (0..actions).rev() {
        let mut next = Vec::new();
        for (node, trail) in &layer {
            let successors = match node.successors(setting) {
                Ok(successors) => successors,
                Err((action, broken)) => {
                    found.broken = Some((broken, [trail.as_slice(), &[action]].concat()));
                    return found;
                }
            };
            for (action, after, event) in successors {
                found.count(&event);
                // From the last layer nothing goes on.
                if seen.insert(after.canonical()) && left > 0 {
                    next.push((after, [trail.as_slice(), &[action]].concat()));
                }
            }
        }
        layer = next;
    }
    found.states = seen.len();
    found
}

impl Found {
    fn count(&mut self, event: &Event) {
        self.transitions += 1;
        self.conflicts += event.conflicts;
        self.deadlocks += usize::from(event.is_deadlock);
        self.handovers += usize::from(event.is_handover);
    }
}
