//! Turns of those who ask for what many wait for.
//!
//! Whoever joins a long queue reads all of it and writes all of it back, and begins anew if anybody else was faster. Of
//! hundreds that come together one succeeds at a time, while all the others have the whole queue in their hands: as text,
//! as records, and as records with a place more. So they wait for a turn, one after the other for each key, and bring
//! nothing along.
//!
//! A turn saves memory and commits in vain, and decides nothing: what may be stored is for the store to judge. So whoever has
//! waited for long enough goes on without one. Those who end leases, or only look, are never held up here.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bell_core::key::Key;
use bell_core::view::View;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Places in a queue from which on it is long: some kilobytes as text. Up to here many may try at once.
const LONG_QUEUE: usize = 16;

/// Lines in which turns are waited for, and so requests that have a long queue in their hands: the longest queue takes
/// half a megabyte there. Keys share a line by chance.
const LINES: usize = 16;

/// As long as a store has for an answer: behind one that is silent nobody waits for more than this and its own answer, however
/// many are ahead. A thousand, as many as a queue has places, take less with a store that is well.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who is to ask for long queues now.
pub(crate) struct Turns([Semaphore; LINES]);

/// How a request stands.
pub(crate) enum Turn<'t> {
    /// It needs none.
    AtOnce,
    /// It will need one, if it is about a long queue.
    ToCome,
    /// It has one.
    Has(#[expect(dead_code, reason = "it is given back when dropped")] SemaphorePermit<'t>),
    /// It has waited for long enough.
    Without,
}

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Semaphore::new(1)))
    }
}

impl Turns {
    /// Waits for the turn of somebody who asks for this key.
    pub(crate) async fn wait_for(&self, key: &Key) -> Turn<'_> {
        let turn = self.line(key).acquire();
        match tokio::time::timeout(PATIENCE, turn).await {
            Ok(Ok(permit)) => Turn::Has(permit),
            // Never closed, so this is patience that has come to its end.
            Ok(Err(_)) | Err(_) => Turn::Without,
        }
    }

    fn line(&self, key: &Key) -> &Semaphore {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let number = hasher.finish() % LINES as u64;
        // Smaller than the number of lines, whatever the machine.
        &self.0[usize::try_from(number).unwrap_or_default()]
    }
}

impl Turn<'_> {
    /// The key with a long queue for which this request has to wait for its turn before it goes on.
    pub(crate) fn is_wanted_for<'v>(&self, view: &'v View) -> Option<&'v Key> {
        let is_long = |queue: usize| queue > LONG_QUEUE;
        match self {
            Self::ToCome => view
                .locks
                .iter()
                .find_map(|(key, seen)| seen.get().filter(|lock| is_long(lock.queue.len())).map(|_| key)),
            Self::AtOnce | Self::Has(_) | Self::Without => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    fn key(name: &str) -> Key {
        Key::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn of_those_who_ask_for_one_key_one_has_its_turn_and_the_next_when_it_is_over() {
        let (turns, key) = (Turns::default(), key("job:a"));
        let first = turns.wait_for(&key).await;
        let mut second = std::pin::pin!(turns.wait_for(&key));
        assert!(tokio::time::timeout(PATIENCE / 2, second.as_mut()).await.is_err());
        drop(first);
        assert!(matches!(second.await, Turn::Has(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_are_ahead_nobody_waits_for_longer_than_its_patience() {
        let turns = Arc::new(Turns::default());
        let _silent = turns.wait_for(&key("job:a")).await;
        let begun = tokio::time::Instant::now();
        let wait =
            |turns: Arc<Turns>| async move { matches!(turns.wait_for(&key("job:a")).await, Turn::Without) };
        let waiting: JoinSet<bool> = (0..100).map(|_| wait(Arc::clone(&turns))).collect();
        assert!(waiting.join_all().await.into_iter().all(|goes_without| goes_without));
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
    }
}
