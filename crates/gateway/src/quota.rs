//! How many locks a session may hold, so that one greedy agent does not fill the store.
//!
//! What a session may be holding is remembered here, and looked up in the store only when that seems too much. Requests
//! that are under way at the same time may go over the limit by what they ask for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bell_coord::{Coord, Session};
use bell_core::key::Key;
use bell_core::session::SessionId;

use crate::limits::HELD_MAX;
use crate::refusal::Refusal;

/// What each session may be holding: at least what it holds. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Quota(Arc<Mutex<HashMap<SessionId, HashSet<Key>>>>);

impl Quota {
    /// Whether a session may hold these keys too.
    pub(crate) async fn room(&self, coord: &Coord, session: &Session, keys: &[Key]) -> Result<(), Refusal> {
        if self.with(session.id(), keys) <= HELD_MAX {
            return Ok(());
        }
        let held = coord.keys_of(session.id(), HELD_MAX).await?;
        self.lock().insert(session.id().clone(), held.into_iter().collect());
        if self.with(session.id(), keys) <= HELD_MAX {
            return Ok(());
        }
        Err(Refusal::too_many(
            format!("could not take another lock: this session holds {HELD_MAX}, and that is the most"),
            "Release some, or lock something coarser.",
        ))
    }

    /// A session was granted these.
    pub(crate) fn granted(&self, session: &SessionId, keys: impl IntoIterator<Item = Key>) {
        self.lock().entry(session.clone()).or_default().extend(keys);
    }

    /// A session gave this back.
    pub(crate) fn released(&self, session: &SessionId, key: &Key) {
        if let Some(held) = self.lock().get_mut(session) {
            held.remove(key);
        }
    }

    /// A session has ended.
    pub(crate) fn ended(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    fn with(&self, session: &SessionId, keys: &[Key]) -> usize {
        let all = self.lock();
        let Some(held) = all.get(session) else { return keys.len() };
        held.len() + keys.iter().filter(|key| !held.contains(*key)).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, HashSet<Key>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
