//! The clock of a memory store: the machine's, or one that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{boottime, wall};
use crate::hub::Hub;
use crate::record::Timestamp;

/// Where a manual clock starts: late enough that a test can look back an hour.
const MANUAL_START_MS: u64 = 10_000_000;

/// Tells a memory store the time.
pub(super) enum StoreClock {
    /// Time since boot, and how far the wall clock was ahead of it when the store was made.
    Boottime { ahead: Duration },
    /// Milliseconds, moved by a [`ManualClock`].
    Manual(AtomicU64),
}

impl StoreClock {
    pub(super) fn boottime() -> Self {
        Self::Boottime { ahead: wall().saturating_sub(boottime()) }
    }

    pub(super) fn manual() -> Self {
        Self::Manual(AtomicU64::new(MANUAL_START_MS))
    }

    pub(super) fn now(&self) -> Timestamp {
        match self {
            Self::Boottime { ahead } => Timestamp::default() + (boottime() + *ahead),
            Self::Manual(ms) => Timestamp::from_ms(ms.load(Ordering::SeqCst)),
        }
    }

    fn advance(&self, span: Duration) {
        if let Self::Manual(ms) = self {
            let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            let later = |now: u64| Some(now.saturating_add(span));
            // The closure always has a later time to give.
            let _ = ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        }
    }
}

/// Moves the clock of one memory store.
#[derive(Clone)]
pub struct ManualClock {
    clock: Arc<StoreClock>,
    hub: Arc<Hub>,
}

impl ManualClock {
    pub(super) fn of(clock: &Arc<StoreClock>, hub: &Arc<Hub>) -> Self {
        Self { clock: Arc::clone(clock), hub: Arc::clone(hub) }
    }

    /// Lets time pass, in whole milliseconds, and makes everybody who waits decide again.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
        self.hub.stir();
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
