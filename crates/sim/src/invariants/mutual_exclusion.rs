//! At any instant at most one live exclusive lease exists on a key, and nobody acts on a lease that is not theirs.

use bell_core::lock::{Fence, Mode};

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct MutualExclusion;

impl Invariant for MutualExclusion {
    fn name(&self) -> &'static str {
        "mutual_exclusion"
    }

    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen {
        match event {
            Event::Committed(changes) => changes.iter().try_for_each(|change| match change {
                Change::Lock(key, _, Some(_)) => {
                    let (mut live, mut exclusive) = (0, 0);
                    for holder in state.live_holders(key) {
                        live += 1;
                        exclusive += usize::from(holder.mode == Mode::Exclusive);
                    }
                    holds(exclusive == 0 || live == 1, || format!("{live} hold {key}, {exclusive} alone"))
                }
                _ => Ok(()),
            }),
            Event::Acted { key, session, fence } => {
                let mut holders = state.live_holders(key);
                let holds_it = holders.any(|h| h.session == *session && h.fence == Some(*fence));
                // Whoever was broken by an operator learns of it a moment later: that is what the sink is for.
                let revoked = |fence: Fence| {
                    let told = state.sessions.get(session).map(|session| &session.revoked);
                    told.is_some_and(|told| told.iter().any(|r| r.key == *key && r.fence == fence))
                };
                holds(holds_it || revoked(*fence), || {
                    format!("{session} acts on {key} with fence {fence}, but does not hold it")
                })
            }
            _ => Ok(()),
        }
    }
}
