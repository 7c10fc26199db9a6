//! Requests that would never be granted: cycles of the wait-for graph, confirmed before anything is refused for them.

use bell_core::acquire::{self, Acquire, Acquired};
use bell_core::deadlock::{refused_afterwards, waits_for_its_caller};
use bell_core::view::{Changes, View};

use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;
use crate::locking::Asked;
use crate::session::Session;

impl Coord {
    /// The cycle was seen in several reads; only one that exists at one moment is a reason to refuse.
    pub(crate) async fn confirm_deadlock(&self, command: &Acquire, seen: Loaded) -> Result<Asked, Denied> {
        match self.confirm(seen, |view: &View| acquire::acquire(view, command)).await? {
            (Acquired::Deadlock(cycle), _) => Err(Denied::Deadlock(cycle)),
            _ => Ok(Asked::Again),
        }
    }

    /// After queueing on more records than a commit can expect: two sessions may have closed a cycle at
    /// the same moment. The one that came last leaves.
    pub(crate) async fn leave_if_refused(&self, owner: &Session, command: &Acquire) -> Result<(), Denied> {
        let find = |view: &View| {
            refused_afterwards(view, owner.id(), &command.request, &command.keys)
                .map(|cycle| (cycle, Default::default()))
        };
        let seen = self.transact(Loaded::default(), find).await?;
        if seen.answer.is_none() {
            return Ok(());
        }
        let (Some(cycle), _) = self.confirm(seen.loaded, find).await? else { return Ok(()) };
        self.leave(owner, &command.request, &command.keys).await?;
        Err(Denied::Deadlock(cycle))
    }

    /// A request for a run that was called leaves the queue once it waits for a caller of its.
    pub(crate) async fn leave_if_called_in_vain(
        &self,
        owner: &Session,
        command: &Acquire,
    ) -> Result<(), Denied> {
        let Some(call) = &command.call else { return Ok(()) };
        let find = |view: &View| {
            waits_for_its_caller(view, owner.id(), &command.request, &command.keys, call)
                .map(|cycle| (cycle, Changes::default()))
        };
        let seen = self.transact(Loaded::default(), find).await?;
        if seen.answer.is_none() {
            return Ok(());
        }
        let (Some(cycle), _) = self.confirm(seen.loaded, find).await? else { return Ok(()) };
        self.leave(owner, &command.request, &command.keys).await?;
        Err(Denied::Deadlock(cycle))
    }
}
