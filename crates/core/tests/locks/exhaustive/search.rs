//! Breadth first: the shortest way to break a rule is found first.

use std::collections::HashSet;

use super::node::{Move, Node, Setting};
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
    for _ in 0..actions {
        let mut next = Vec::new();
        for (node, trail) in &layer {
            for action in node.moves(setting) {
                let trail = || [trail.as_slice(), &[action]].concat();
                match node.after(action) {
                    Ok(Some((after, event))) => {
                        found.transitions += 1;
                        found.conflicts += event.conflicts;
                        found.deadlocks += usize::from(event.is_deadlock);
                        found.handovers += usize::from(event.is_handover);
                        if seen.insert(after.canonical()) {
                            next.push((after, trail()));
                        }
                    }
                    Ok(None) => {}
                    Err(broken) => {
                        found.broken = Some((broken, trail()));
                        found.states = seen.len();
                        return found;
                    }
                }
            }
        }
        layer = next;
    }
    found.states = seen.len();
    found
}
