//! A state that several look at, and are told whenever it has changed.
//!
//! It is a fraction of the size of tokio's `watch`, of which ten thousand sessions that wait would have one each.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A state, and whoever waits for it to be otherwise.
#[derive(Default)]
pub struct Told<T> {
    state: Mutex<T>,
    has_changed: Notify,
}

impl<T> Told<T> {
    /// The state as it is. Nothing changes while this is kept.
    pub fn look(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and lets those know who wait.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.look());
        self.has_changed.notify_waiters();
    }

    /// Returns once this is so.
    pub async fn until(&self, is_so: impl Fn(&T) -> bool) {
        loop {
            // What changes from here on is told.
            let changed = self.has_changed.notified();
            if is_so(&self.look()) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_waits_is_told_whenever_it_came_and_on_whatever_thread() {
        for _ in 0..200 {
            let told = Arc::new(Told::<usize>::default());
            let wait =
                |told: Arc<Told<usize>>, for_this| async move { told.until(|now| *now >= for_this).await };
            let waiting: JoinSet<()> = (0..4).map(|number| wait(Arc::clone(&told), number)).collect();
            (0..4).for_each(|_| told.change(|now| *now += 1));
            waiting.join_all().await;
            assert_eq!(*told.look(), 4);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_told_what_is_not_so() {
        let told = Told::<bool>::default();
        let mut waiting = std::pin::pin!(told.until(|now| *now));
        let day = std::time::Duration::from_secs(86_400);
        assert!(tokio::time::timeout(day, waiting.as_mut()).await.is_err());
        told.change(|now| *now = false);
        assert!(tokio::time::timeout(day, waiting.as_mut()).await.is_err());
        told.change(|now| *now = true);
        waiting.await;
    }
}
