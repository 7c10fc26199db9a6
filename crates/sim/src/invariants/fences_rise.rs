//! Every grant carries a fence greater than every fence ever granted on that key.

use std::collections::BTreeMap;

use bell_core::key::Key;
use bell_core::lock::{Fence, Lock};

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct FencesRise {
    highest: BTreeMap<Key, Fence>,
}

impl Invariant for FencesRise {
    fn name(&self) -> &'static str {
        "fences_rise"
    }

    fn look(&mut self, event: &Event<'_>, _state: &State) -> Seen {
        let Event::Committed(changes) = event else { return Ok(()) };
        for change in *changes {
            let Change::Lock(key, before, Some(after)) = change else { continue };
            let highest = self.highest.get(key).copied();
            for holder in after.holders.iter().filter(|holder| !held(before.as_ref(), holder)) {
                let fence = holder.fence.ok_or_else(|| format!("{key} is granted without a fence"))?;
                holds(highest.is_none_or(|highest| fence > highest), || {
                    format!("{key} is granted with fence {fence}, after {highest:?}")
                })?;
                let known = self.highest.entry(key.clone()).or_insert(fence);
                *known = fence.max(*known);
            }
        }
        Ok(())
    }
}

/// Whether this very lease was there before: a renewal is no grant.
fn held(before: Option<&Lock>, holder: &bell_core::lock::Holder) -> bool {
    before.and_then(|lock| lock.held_by(&holder.session)).is_some_and(|h| h.since == holder.since)
}
