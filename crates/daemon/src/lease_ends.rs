//! When the leases of a run end, and by when its supervisor must have ended it.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::Session;
use bell_locks::Held;
use bell_runner::watchdog::Watchdog;

/// How long before the store may give a run's session or locks to others nothing of the run may live any more: time for
/// KILL to take effect, and for a machine that is busy.
const KILL_BEFORE: Duration = Duration::from_secs(1);

/// How long before it a supervisor that has not ended its run is killed itself: time for one that works, and for the kernel
/// to end the agent with it.
const WATCHDOG_BEFORE: Duration = Duration::from_millis(500);
const _: () = assert!(WATCHDOG_BEFORE.as_millis() < KILL_BEFORE.as_millis());

/// On the boot clock, as last renewed: zero if it has ended, `None` if nothing bounds it.
type End = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

/// The ends of a run's sessions and of the locks that it must have. They move while these are renewed.
#[derive(Clone)]
pub(crate) struct LeaseEnds(Arc<[End]>);

impl LeaseEnds {
    pub(crate) fn of(sessions: [&Session; 2], held: &[Held]) -> Self {
        let sessions = sessions.into_iter().cloned();
        let sessions = sessions.map(|session| -> End { Box::new(move || session.ends_at()) });
        let held = held.iter().map(|held| -> End { Box::new(held.end_reader()) });
        Self(sessions.chain(held).collect())
    }

    /// When nothing of the run may live any more.
    pub(crate) fn kill_by(&self) -> Option<Duration> {
        before(self.first(), KILL_BEFORE)
    }

    /// Kills this process if it is stopped or hangs beyond [`LeaseEnds::kill_by`].
    ///
    /// # Errors
    /// If the system has no timer or thread left.
    pub(crate) fn watchdog(&self) -> std::io::Result<Watchdog> {
        let ends = self.clone();
        Watchdog::start(move || watchdog_at(ends.first()))
    }

    fn first(&self) -> Option<Duration> {
        self.0.iter().filter_map(|end| end()).min()
    }
}

fn before(end: Option<Duration>, margin: Duration) -> Option<Duration> {
    end.map(|end| end.saturating_sub(margin))
}

/// An end that is known to have come is for the supervisor to act on: it is alive to know it.
fn watchdog_at(end: Option<Duration>) -> Option<Duration> {
    before(end, WATCHDOG_BEFORE).filter(|at| !at.is_zero())
}

#[cfg(test)]
mod tests {
    use bell_coord::{Ask, Coord, Keep};
    use bell_core::lock::Ttl;
    use bell_core::session::Identity;
    use bell_locks::LockBackend;
    use bell_locks::locks::StoreLocks;
    use bell_store::memory::Memory;

    use super::*;

    const fn s(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn ends(ends: &[Option<Duration>]) -> LeaseEnds {
        LeaseEnds(
            ends.iter()
                .map(|end| -> End {
                    let end = *end;
                    Box::new(move || end)
                })
                .collect(),
        )
    }

    /// A session that holds a key for so long.
    async fn holding(ttl: u64) -> (Session, Held) {
        let coord = Coord::new(Arc::new(Memory::new()));
        let session = Session::new(Identity::default(), Keep::Attended).unwrap();
        let ttl = Ttl::new(Duration::from_secs(ttl)).unwrap();
        let ask = Ask::new("job://a".parse().unwrap()).ttl(ttl);
        let lease = coord.acquire(&session, &ask).await.unwrap().remove(0);
        let backend: Arc<dyn LockBackend> = Arc::new(StoreLocks::new(Arc::clone(coord.store())));
        (session.clone(), Held::new(&backend, &session, lease))
    }

    #[tokio::test]
    async fn a_lock_that_ends_before_the_session_of_its_run_is_the_deadline() {
        let (session, held) = holding(5).await;
        let end = held.ends_at().unwrap();
        assert!(end < session.ends_at().unwrap());
        assert_eq!(LeaseEnds::of([&session, &session], &[held]).kill_by(), Some(end - KILL_BEFORE));
    }

    #[tokio::test]
    async fn of_the_sessions_of_a_run_the_one_that_ends_first_is_the_deadline() {
        let (first, _held) = holding(60).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (second, _other) = holding(60).await;
        let end = first.ends_at().unwrap();
        assert!(end < second.ends_at().unwrap());
        for sessions in [[&first, &second], [&second, &first]] {
            assert_eq!(LeaseEnds::of(sessions, &[]).kill_by(), Some(end - KILL_BEFORE));
        }
    }

    #[test]
    fn a_run_is_over_a_second_before_the_first_of_its_leases_ends() {
        assert_eq!(ends(&[s(40), s(15), None]).kill_by(), s(14));
    }

    #[test]
    fn a_run_whose_lease_has_ended_is_over_at_once() {
        assert_eq!(ends(&[s(40), s(0)]).kill_by(), s(0));
    }

    #[test]
    fn a_run_without_a_lease_that_can_end_has_no_deadline() {
        assert_eq!(ends(&[None, None]).kill_by(), None);
    }

    #[test]
    fn a_supervisor_has_time_to_end_its_run_before_its_watchdog_kills_it() {
        assert_eq!(watchdog_at(s(15)), Some(Duration::from_millis(14_500)));
        // An operator broke a lock, or ended the session: the supervisor says so before it goes.
        assert_eq!(watchdog_at(s(0)), None);
        assert_eq!(watchdog_at(None), None);
    }
}
