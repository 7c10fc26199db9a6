//! Once a successor has written, nobody who held the key before it writes again.

use std::collections::BTreeMap;

use bell_core::key::Key;
use bell_core::lock::Fence;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::State;

#[derive(Default)]
pub(super) struct NoStaleWrite {
    last: BTreeMap<Key, Fence>,
}

impl Invariant for NoStaleWrite {
    fn name(&self) -> &'static str {
        "no_stale_write"
    }

    fn look(&mut self, event: &Event<'_>, _state: &State) -> Seen {
        let Event::Wrote { key, fence } = event else { return Ok(()) };
        let last = self.last.insert(key.clone(), *fence);
        holds(last.is_none_or(|last| last <= *fence), || {
            format!("{key} was written with fence {fence} after {last:?}")
        })
    }
}
