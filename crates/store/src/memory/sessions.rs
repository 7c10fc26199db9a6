//! Which sessions of this process are present. No kernel is needed: whoever shares a memory store shares
//! the process, so a session goes when its attendance is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Kind, Result};
use crate::hub::Hub;
use crate::presence::{Attendance, Presence};

/// The sessions that have attended and were not forgotten.
pub(super) struct Sessions {
    attending: Mutex<HashMap<String, Attending>>,
    hub: Arc<Hub>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attending {
    Present,
    Gone,
}

impl Sessions {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { attending: Mutex::default(), hub }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Attending>> {
        self.attending.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Presence for Arc<Sessions> {
    fn attend(&self, session: &str) -> Result<Attendance> {
        let mut attending = self.lock();
        // Gone is for ever: others may already have acted on it.
        if attending.contains_key(session) {
            return Err(Error::new(Kind::Invalid, format!("attend as session {session} a second time"))
                .hint("Start a session with a new id."));
        }
        attending.insert(session.to_owned(), Attending::Present);
        Ok(Attendance::new(Leaving { sessions: Arc::clone(self), session: session.to_owned() }))
    }

    fn is_gone(&self, session: &str) -> bool {
        self.lock().get(session) == Some(&Attending::Gone)
    }

    fn forget(&self, session: &str) {
        self.lock().remove(session);
    }
}

/// Marks its session as gone when dropped.
struct Leaving {
    sessions: Arc<Sessions>,
    session: String,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // A session that was forgotten first stays forgotten.
        if let Some(attending) = self.sessions.lock().get_mut(&self.session) {
            *attending = Attending::Gone;
        }
        self.sessions.hub.stir();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Arc<Sessions> {
        Arc::new(Sessions::new(Arc::default()))
    }

    #[test]
    fn a_session_that_went_can_not_come_back() {
        let sessions = sessions();
        drop(sessions.attend("s").unwrap());
        assert_eq!(sessions.attend("s").err().map(|error| error.kind()), Some(Kind::Invalid));
        assert!(sessions.is_gone("s"));
    }

    #[test]
    fn a_session_forgotten_before_it_left_leaves_nothing_behind() {
        let sessions = sessions();
        let attendance = sessions.attend("s").unwrap();
        sessions.forget("s");
        drop(attendance);
        assert!(sessions.lock().is_empty());
    }
}
