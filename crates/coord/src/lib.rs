//! Read, decide, commit: the only code that changes a store.
//!
//! `bell-core` decides; this crate loads what a decision asks for, commits what it answers, and decides
//! again if the world moved. It also waits, keeps leases alive from a thread of its own, and cleans up
//! after callers that went away.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`space`] | which record is where |
//! | `clock` | what the store's clock must be showing now |
//! | `fresh` | names and secrets that nobody had before |
//! | [`audit`] | what operators did, in the commits in which they did it |
//! | [`keys`] | API keys: who may look at a fleet, and steer it |
//! | [`logins`] | what a browser shows instead of a key |
//! | `load`, `transact` | the loop: load, decide, commit, again |
//! | `backoff` | pauses between tries at a store that does not say what became of a commit |
//! | `demand` | what a decision asks of the store |
//! | `turns` | who is to join a long queue next |
//! | [`session`] | a session as its owner has it |
//! | [`locking`] | acquire, renew, release, break, end |
//! | [`waiting`] | in a queue until it is one's turn |
//! | `deadlock` | refusing requests that would never be granted |
//! | [`looking`] | show, list, watch |
//! | `heart` | a session's first sign, heartbeats and end |
//! | [`keeper`] | the thread on which leases and sessions are kept alive |
//! | [`outside`] | sessions of programs that are served from here |
//! | [`sweep`] | clearing away what dead sessions left |
//! | [`tally`] | what this process has seen of its locks, counted |
//! | [`told`] | a state that others are told of when it changes |
//! | [`work`] | jobs and runs: accept, fire, claim, finish, look |
//! | [`denied`] | the ways to be refused |

pub mod audit;
mod backoff;
mod clock;
mod deadlock;
mod demand;
pub mod denied;
mod fresh;
mod heart;
pub mod keeper;
pub mod keys;
mod load;
pub mod locking;
pub mod logins;
pub mod looking;
pub mod outside;
pub mod session;
pub mod space;
pub mod sweep;
pub mod tally;
pub mod told;
mod transact;
mod turns;
pub mod waiting;
pub mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bell_core::audit::Act;
use bell_store::Store;
use bell_store::clock::boottime;
use tokio::sync::Semaphore;

pub use denied::Denied;
pub use locking::{Ask, Broken, Lease};
pub use session::{Keep, Revocations, Session, Token, new_request};

use clock::StoreClock;
use space::Space;
use turns::Turns;
use work::gather::Gathering;
use work::receiving::Arrivals;

/// Locks on one store, in one space of it. Cheap to clone.
#[derive(Clone)]
pub struct Coord {
    inner: Arc<Inner>,
    /// In whose name it commits, if what it commits is to be on record.
    act: Option<Arc<Act>>,
}

struct Inner {
    store: Arc<dyn Store>,
    space: Space,
    clock: StoreClock,
    /// On the boot clock, in ms: when the last sweep began.
    swept_ms: AtomicU64,
    gathering: Gathering,
    arrivals: Arrivals,
    /// Turns to look at queues.
    looking: Semaphore,
    /// Turns to join long ones.
    turns: Turns,
}

impl Coord {
    /// Coordinates over `store`. Nothing is read or written yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::in_space(store, Space::root())
    }

    /// The same store, another space: nothing of one is seen from the other. Sessions belong to one space.
    #[must_use]
    pub fn scoped(&self, space: Space) -> Self {
        Self::in_space(Arc::clone(self.store()), space)
    }

    /// The space this works in.
    pub fn space(&self) -> &Space {
        &self.inner.space
    }

    /// The store this works on.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    fn in_space(store: Arc<dyn Store>, space: Space) -> Self {
        let (clock, gathering, arrivals) = (StoreClock::default(), Gathering::default(), Arrivals::default());
        let (swept_ms, looking) = (AtomicU64::new(now_ms()), Semaphore::new(waiting::MAX_LOOKING));
        let turns = Turns::default();
        let inner = Inner { store, space, clock, swept_ms, gathering, arrivals, looking, turns };
        Self { inner: Arc::new(inner), act: None }
    }

    /// Whether it is this caller's turn to sweep: one in each interval.
    fn sweep_is_due(&self, every: Duration) -> bool {
        let (now, last) = (now_ms(), self.inner.swept_ms.load(Ordering::Relaxed));
        let is_due = Duration::from_millis(now.saturating_sub(last)) >= every;
        let swap =
            |last| self.inner.swept_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        is_due && swap(last).is_ok()
    }

    fn gathering(&self) -> &Gathering {
        &self.inner.gathering
    }

    fn turns(&self) -> &Turns {
        &self.inner.turns
    }

    fn arrivals(&self) -> &Arrivals {
        &self.inner.arrivals
    }

    fn clock(&self) -> &StoreClock {
        &self.inner.clock
    }
}

fn now_ms() -> u64 {
    u64::try_from(boottime().as_millis()).unwrap_or(u64::MAX)
}
