//! In a queue until it is one's turn.
//!
//! Whoever ends a lease grants the key to the next in line in the same commit, and writes so into that
//! session's record; so a waiter watches one record, its own. What nobody announces is the end of a lease
//! that runs out: for that a waiter looks again when the one in its way should have ended.

use std::time::Duration;

use bell_core::acquire::{Acquire, Busy};
use bell_core::keep::{Queued, Waiting, look_after};
use bell_core::view::View;
use bell_store::Watch;
use bell_store::clock::boottime;

use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;
use crate::locking::Lease;
use crate::session::Session;

/// How much later each further waiter looks when a lease should have run out: the first one serves the
/// queue, the others need not look at all.
const STAGGER: Duration = Duration::from_millis(20);
const MAX_STAGGER: Duration = Duration::from_secs(2);
/// The least time between two looks: clocks that disagree by a moment must not make a loop spin.
const MIN_PAUSE: Duration = Duration::from_millis(5);

impl Coord {
    pub(crate) async fn wait_for_turn(
        &self,
        owner: &Session,
        command: &Acquire,
        busy: Busy,
    ) -> Result<Vec<Lease>, Denied> {
        let give_up = boottime() + command.wait;
        loop {
            let look = |view: &View| look_after(view, owner.id(), &command.request, &command.keys);
            let done = self.transact(Loaded::default(), &[], look).await?;
            owner.learn(self, &done);
            let queued = match &done.answer {
                Waiting::Granted(leases) => return Ok(self.grants(&done, leases)),
                Waiting::Queued(queued) => queued,
                Waiting::Gone => return Err(Denied::Lost("the place in the queue has lapsed".to_owned())),
            };
            let time_left = give_up.saturating_sub(boottime());
            if time_left.is_zero() {
                let granted = self.leave(owner, &command.request, &command.keys).await?;
                return granted.ok_or(Denied::TimedOut(Box::new(busy)));
            }
            let pause = pause(queued, done.loaded.view.now).min(time_left);
            // The version this look rests on, not a later one: a grant in between must wake us.
            let name = self.space().session(owner.id());
            let mailbox = Watch::Names(vec![(name.clone(), done.loaded.version(&name))]);
            tokio::select! {
                changed = self.store().changed(&mailbox) => changed?,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

fn pause(queued: &Queued, now: bell_core::time::Timestamp) -> Duration {
    let ahead = u32::try_from(queued.ahead).unwrap_or(u32::MAX);
    let stagger = STAGGER.saturating_mul(ahead).min(MAX_STAGGER);
    (queued.recheck.since(now) + stagger).max(MIN_PAUSE)
}
