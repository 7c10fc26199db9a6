//! In a queue until it is one's turn.
//!
//! Whoever ends a lease grants the key to the next in line in the same commit, and writes so into that
//! session's record; so a waiter watches one record, its own. What nobody announces is the end of a lease
//! that runs out: for that a waiter looks again when the one in its way should have ended.

use std::time::Duration;

use bell_core::acquire::{Acquire, Busy, acquire, in_the_way};
use bell_core::keep::{Queued, Waiting, look_after};
use bell_core::time::Version;
use bell_core::view::{Changes, Missing, View};
use bell_store::Watch;
use bell_store::clock::boottime;
use tokio::sync::SemaphorePermit;

use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;
use crate::locking::Lease;
use crate::session::{Keep, Session};

/// How much later each further waiter looks when a lease should have run out: the first one serves the
/// queue, the others need not look at all.
const STAGGER: Duration = Duration::from_millis(20);
const MAX_STAGGER: Duration = Duration::from_secs(2);
/// A session that nobody keeps alive says every so often that it still waits; if it dies, its place lapses
/// soon after.
const SAY_SO_EVERY: Duration = Duration::from_secs(10);
/// The same for a session that its owner keeps alive from elsewhere: its place lapses with it, so this only clears away
/// what an owner left that lives on.
const ELSEWHERE_SAYS_SO_EVERY: Duration = Duration::from_secs(300);
/// The longest that a waiter sleeps without looking. Those ahead may have changed since it last looked:
/// only whoever got the key was told.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// How many look at one time; the others wait for their turn, first come, first served. A queue of a thousand takes some
/// hundred kilobytes while it is looked at, and an allocator keeps what it had to give out at once. So many keep a store busy.
pub(crate) const MAX_LOOKING: usize = 16;
/// The least time between two looks: clocks that disagree by a moment must not make a loop spin.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// What a look at the queues has shown.
enum Look {
    Granted(Vec<Lease>),
    Queued(Place),
    /// It has waited for as long as it wanted to, and this is in its way.
    TooLong(Box<Busy>),
    /// Answered by another request of this session, or lapsed while this process was paused.
    Gone,
}

/// A place in the queues, and when to look after it again.
struct Place {
    pause: Duration,
    /// The session's version that the look rests on, not a later one: a grant in between must wake us.
    mailbox: Version,
}

impl Coord {
    /// Waits in the queues; `None` if there is no place in them any more, and asking again tells why.
    ///
    /// Whatever it takes to look is in boxes and gone before anybody sleeps: thousands may, and a queue may be long.
    pub(crate) async fn wait_for_turn(
        &self,
        owner: &Session,
        command: &Acquire,
        give_up: Duration,
    ) -> Result<Option<Vec<Lease>>, Denied> {
        let mut say_so = boottime() + command.wait;
        loop {
            let stirs = self.store().stirs();
            let looking = self.looking().await;
            let place = match Box::pin(self.look(owner, command, give_up)).await? {
                Look::Granted(leases) => return Ok(Some(leases)),
                Look::Queued(place) => place,
                Look::TooLong(busy) => {
                    let granted = Box::pin(self.leave(owner, &command.request, &command.keys)).await?;
                    return granted.map_or(Err(Denied::TimedOut(busy)), |leases| Ok(Some(leases)));
                }
                Look::Gone => return Ok(None),
            };
            let now = boottime();
            if now >= say_so {
                say_so = now + command.wait;
                Box::pin(self.keep_place(command)).await?;
                continue;
            }
            drop(looking);
            let mailbox = Watch::Names(vec![(self.space().session(owner.id()), place.mailbox)]);
            tokio::select! {
                // In this order: whoever died before we waited has been counted, and is told after.
                biased;
                changed = self.store().changed(&mailbox) => changed?,
                () = self.stirred(stirs) => {}
                () = tokio::time::sleep(place.pause.min(give_up.min(say_so).saturating_sub(now))) => {}
            }
        }
    }

    /// Looks after a request in the queues.
    async fn look(&self, owner: &Session, command: &Acquire, give_up: Duration) -> Result<Look, Denied> {
        let place = self.load_place(owner, command).await?;
        let look = |view: &View| look_after(view, owner.id(), &command.request, &command.keys);
        let done = self.transact(place, look).await?;
        owner.learn(&done);
        if matches!(done.answer, Waiting::Queued(_)) && command.call.is_some() {
            self.leave_if_called_in_vain(owner, command).await?;
        }
        Ok(match &done.answer {
            Waiting::Granted(leases) => Look::Granted(self.grants(&done, leases)),
            Waiting::Queued(_) if boottime() >= give_up => {
                let find = |view: &View| in_the_way(view, command).map(|busy| (busy, Changes::default()));
                Look::TooLong(Box::new(self.transact(done.loaded, find).await?.answer))
            }
            Waiting::Queued(queued) => {
                let view = &done.loaded.view;
                let mailbox = view.sessions.get(owner.id()).map_or(0, |seen| seen.version);
                Look::Queued(Place { pause: pause(queued, view.now), mailbox })
            }
            Waiting::Gone => Look::Gone,
        })
    }

    /// Says that a request still waits.
    async fn keep_place(&self, command: &Acquire) -> Result<(), Denied> {
        self.transact(Loaded::default(), |view| acquire(view, command)).await?;
        Ok(())
    }

    /// Waits for one's turn to look. Never closed, so there is always one.
    async fn looking(&self) -> Option<SemaphorePermit<'_>> {
        self.inner.looking.acquire().await.ok()
    }

    /// Returns if somebody has died since the count was taken; else never. What happens later wakes whoever
    /// waits for changes.
    async fn stirred(&self, count: u64) {
        if self.store().stirs() == count {
            std::future::pending().await
        }
    }

    /// The queues and the waiter's own session, read as of one revision: a session read after the queues
    /// may already tell of a grant that they don't show, and would not change once more to wake anybody.
    async fn load_place(&self, owner: &Session, command: &Acquire) -> Result<Loaded, Denied> {
        let mut loaded = Loaded::default();
        let locks = command.keys.iter().cloned().collect();
        let place = Missing { locks, sessions: [owner.id().clone()].into(), ..Missing::default() };
        self.load(&mut loaded, &place).await?;
        Ok(loaded)
    }
}

/// For how long a place in the queue is asked for at once.
pub(crate) fn slice(keep: Keep, wait: Duration) -> Duration {
    match keep {
        Keep::Attended => wait,
        Keep::Detached => wait.min(SAY_SO_EVERY),
        Keep::Elsewhere => wait.min(ELSEWHERE_SAYS_SO_EVERY),
    }
}

fn pause(queued: &Queued, now: bell_core::time::Timestamp) -> Duration {
    let ahead = u32::try_from(queued.ahead).unwrap_or(u32::MAX);
    let stagger = STAGGER.saturating_mul(ahead).min(MAX_STAGGER);
    (queued.recheck.since(now).min(MAX_PAUSE) + stagger).max(MIN_PAUSE)
}
