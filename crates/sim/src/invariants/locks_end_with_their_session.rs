//! No lock outlives its session: a run's end takes its session with it in one commit, only a live session is granted
//! anything, and in the end nothing is held but by those who live.

use bell_core::lock::Lock;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::{Change, State};

#[derive(Default)]
pub(super) struct LocksEndWithTheirSession;

impl Invariant for LocksEndWithTheirSession {
    fn name(&self) -> &'static str {
        "locks_end_with_their_session"
    }

    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen {
        let Event::Committed(changes) = event else { return Ok(()) };
        changes.iter().try_for_each(|change| match change {
            Change::Run(id, _, Some(run)) if run.ended.is_some() => {
                holds(!state.sessions.contains_key(&run.session), || {
                    let held = state.locks.iter().filter(|(_, lock)| lock.held_by(&run.session).is_some());
                    let held: Vec<&str> = held.map(|(key, _)| key.as_str()).collect();
                    format!("run {id} has ended, its session has not, and holds {held:?}")
                })
            }
            Change::Lock(key, before, Some(after)) => {
                let is_new = |lock: Option<&Lock>, session| lock.and_then(|l| l.held_by(session)).is_none();
                let mut granted = after.holders.iter().filter(|h| is_new(before.as_ref(), &h.session));
                let dead = granted.find(|holder| !state.is_alive(&holder.session));
                dead.map_or(Ok(()), |h| Err(format!("{key} is granted to {}, which is dead", h.session)))
            }
            _ => Ok(()),
        })
    }

    fn finally(&mut self, state: &State) -> Seen {
        for key in state.locks.keys().filter(|key| key.scheme() != "bell") {
            if let Some(holder) = state.live_holders(key).next() {
                return Err(format!("{key} is still held by {}", holder.session));
            }
        }
        Ok(())
    }
}
