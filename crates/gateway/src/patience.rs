//! One timer for all that the requests of a connection are given time for.
//!
//! A body may take ten seconds and an answer longer, and nearly all of them take a millisecond. Timers of their own would
//! be set and taken back several times in every request. So a connection has one. It is set where there is none, or it
//! would ring too late; when it rings too early it is set again. What comes at once needs none at all.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection. Cheap to clone; it rings for the task that looked at it last.
#[derive(Clone, Default)]
pub(crate) struct Patience(Arc<Mutex<Option<Pin<Box<Sleep>>>>>);

impl Patience {
    /// What is waited for, if it comes within this time. It stays where it is: taken along, it would take twice its room.
    pub(crate) async fn within<T>(
        &self,
        time: Duration,
        mut awaited: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut end = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(come) = awaited.as_mut().poll(cx) {
                return Poll::Ready(Some(come));
            }
            let end = *end.get_or_insert_with(|| Instant::now() + time);
            self.poll_until(cx, end).map(|()| None)
        })
        .await
    }

    fn poll_until(&self, cx: &mut Context<'_>, end: Instant) -> Poll<()> {
        let mut timer = self.lock();
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() > end {
            timer.as_mut().reset(end);
        }
        ready!(timer.as_mut().poll(cx));
        if timer.deadline() >= end {
            return Poll::Ready(());
        }
        timer.as_mut().reset(end);
        timer.as_mut().poll(cx)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use tokio::time::sleep;

    use super::*;

    const SHORT: Duration = Duration::from_secs(10);
    const LONG: Duration = Duration::from_secs(85);

    #[tokio::test(start_paused = true)]
    async fn whatever_comes_at_once_sets_no_timer() {
        let patience = Patience::default();
        assert_eq!(patience.within(SHORT, pin!(ready(1))).await, Some(1));
        assert!(patience.lock().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_given_its_own_time_whatever_was_waited_for_before() {
        let (patience, begun) = (Patience::default(), Instant::now());
        assert_eq!(patience.within(LONG, pin!(sleep(SHORT / 2))).await, Some(()));
        assert_eq!(patience.within(SHORT, pin!(pending::<()>())).await, None);
        assert_eq!(begun.elapsed().as_secs(), 15);
        assert_eq!(patience.within(LONG, pin!(pending::<()>())).await, None);
        assert_eq!(begun.elapsed().as_secs(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_are_waited_for_at_once_each_is_given_its_own_time() {
        let (patience, begun) = (Patience::default(), Instant::now());
        let inner = async {
            assert_eq!(patience.within(SHORT, pin!(pending::<()>())).await, None);
            assert_eq!(begun.elapsed().as_secs(), 10);
            pending::<()>().await;
        };
        assert_eq!(patience.within(LONG, pin!(inner)).await, None);
        assert_eq!(begun.elapsed().as_secs(), 85);
    }
}
