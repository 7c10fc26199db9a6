//! The store's clock: milliseconds that never go back, the same for every process of this machine.
//!
//! It is the time since boot plus a base that the first process to open the store after a boot writes
//! down. Setting the wall clock changes nothing while the machine runs; over a reboot the clock goes on
//! from the wall clock, or from where it stood if that is later.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bell_store::Timestamp;
use bell_store::clock::{boottime, wall};

/// What is stored of the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredClock {
    /// The boot that `base_ms` belongs to.
    pub(crate) boot: String,
    /// The store's time when the machine booted.
    pub(crate) base_ms: i64,
    /// The store's time at the last commit.
    pub(crate) last: Timestamp,
}

impl StoredClock {
    /// The clock as it is to go on in this boot; unchanged if it already runs.
    pub(crate) fn resumed(self, boot: &str) -> Self {
        self.resumed_at(boot, boottime(), wall())
    }

    fn resumed_at(self, boot: &str, since_boot: Duration, wall: Duration) -> Self {
        let since_boot_ms = ms(since_boot);
        // A restored snapshot of a machine runs on in the same boot, at an earlier time.
        let is_running = self.boot == boot && at(self.base_ms, since_boot_ms) >= self.last;
        if is_running {
            return self;
        }
        let now_ms = ms(wall).max(i64::try_from(self.last.as_ms()).unwrap_or(i64::MAX));
        Self { boot: boot.to_owned(), base_ms: now_ms.saturating_sub(since_boot_ms), last: self.last }
    }
}

/// The clock of an open store.
pub(crate) struct StoreClock {
    base_ms: AtomicI64,
    /// The latest time handed out or stored.
    last_ms: AtomicU64,
}

impl StoreClock {
    pub(crate) fn new(stored: &StoredClock) -> Self {
        Self { base_ms: AtomicI64::new(stored.base_ms), last_ms: AtomicU64::new(stored.last.as_ms()) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let now_ms = at(self.base_ms.load(Ordering::Acquire), ms(boottime())).as_ms();
        let earlier_ms = self.last_ms.fetch_max(now_ms, Ordering::AcqRel);
        Timestamp::from_ms(now_ms.max(earlier_ms))
    }

    /// Takes over what another process may have stored since.
    pub(crate) fn follow(&self, base_ms: i64, last: Timestamp) {
        self.base_ms.store(base_ms, Ordering::Release);
        self.last_ms.fetch_max(last.as_ms(), Ordering::AcqRel);
    }
}

fn at(base_ms: i64, since_boot_ms: i64) -> Timestamp {
    Timestamp::from_ms(u64::try_from(base_ms.saturating_add(since_boot_ms)).unwrap_or(0))
}

fn ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const NOON: Duration = Duration::from_secs(1_800_000_000);

    fn stored(boot: &str, now: Duration, since_boot: Duration) -> StoredClock {
        let last = Timestamp::from_ms(u64::try_from(ms(now)).unwrap());
        StoredClock { boot: boot.to_owned(), base_ms: ms(now) - ms(since_boot), last }
    }

    fn now(clock: &StoredClock, since_boot: Duration) -> Timestamp {
        at(clock.base_ms, ms(since_boot))
    }

    #[test]
    fn a_running_clock_ignores_the_wall_clock() {
        let clock = stored("boot-1", NOON, MINUTE);
        for wall in [Duration::ZERO, NOON * 2] {
            assert_eq!(clock.clone().resumed_at("boot-1", MINUTE * 2, wall), clock);
        }
    }

    #[test]
    fn after_a_reboot_the_clock_goes_on_from_the_wall_clock() {
        let clock = stored("boot-1", NOON, MINUTE).resumed_at("boot-2", MINUTE, NOON + MINUTE * 5);
        assert_eq!(now(&clock, MINUTE), Timestamp::default() + NOON + MINUTE * 5);
        assert_eq!(clock.boot, "boot-2");
    }

    #[test]
    fn after_a_reboot_with_the_wall_clock_set_back_the_clock_goes_on_from_where_it_stood() {
        let clock = stored("boot-1", NOON, MINUTE).resumed_at("boot-2", MINUTE, Duration::ZERO);
        assert_eq!(now(&clock, MINUTE), Timestamp::default() + NOON);
    }

    #[test]
    fn a_machine_restored_from_a_snapshot_does_not_turn_the_clock_back() {
        let clock = stored("boot-1", NOON, MINUTE * 60).resumed_at("boot-1", MINUTE, NOON - MINUTE * 59);
        assert_eq!(now(&clock, MINUTE), Timestamp::default() + NOON);
    }

    #[test]
    fn an_open_clock_never_goes_back() {
        let clock = StoreClock::new(&stored("boot-1", NOON, Duration::ZERO));
        let earlier = clock.now();
        clock.follow(0, Timestamp::default());
        assert!(clock.now() >= earlier);
    }
}
