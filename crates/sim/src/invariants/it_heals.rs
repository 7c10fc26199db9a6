//! When faults stop, the fleet comes to rest within a bounded time: every job that was taken on is over, no run goes on,
//! nobody waits for a lock, and the queues say so themselves.

use bell_core::work::job::State as Is;

use super::{Invariant, Seen, holds};
use crate::journal::Event;
use crate::state::State;

#[derive(Default)]
pub(super) struct ItHeals;

impl Invariant for ItHeals {
    fn name(&self) -> &'static str {
        "it_heals"
    }

    fn look(&mut self, _event: &Event<'_>, _state: &State) -> Seen {
        Ok(())
    }

    fn finally(&mut self, state: &State) -> Seen {
        let slots = &state.pool.slots;
        let left = state.jobs.iter().find(|(_, job)| !matches!(job.state, Is::Over { .. }));
        left.map_or(Ok(()), |(id, job)| Err(format!("job {id} is not over: {:?}", job.state)))?;
        holds(slots.is_empty(), || format!("nothing is to be done, and these run: {slots:?}"))?;
        holds(state.tickets.is_empty(), || format!("places are left over: {:?}", state.tickets))?;
        holds(state.delayed.is_empty(), || format!("retries are left over: {:?}", state.delayed))?;
        let waits = |lock: &&bell_core::lock::Lock| {
            lock.queue.iter().any(|waiter| state.now < waiter.until && state.is_alive(&waiter.session))
        };
        holds(!state.locks.values().any(|lock| waits(&lock)), || "somebody still waits for a lock".to_owned())
    }
}
