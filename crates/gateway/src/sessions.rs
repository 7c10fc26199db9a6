//! Sessions that a run makes for itself, so that two of its own processes can exclude each other.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::extract::State;
use bell_api::ask::{Nothing, SessionRequest};
use bell_api::lock::{AcquireAnswer, LockAnswer};
use bell_api::outcome::Outcome;
use bell_coord::{Keep, Session};
use bell_core::session::{Identity, SessionId};

use crate::auth::Caller;
use crate::body::Asked;
use crate::counter::Counter;
use crate::desk::Desk;
use crate::limits::{LABEL_BYTES_MAX, SESSIONS_MAX};
use crate::refusal::{Answer, Refusal};

/// The sessions of one run beside its own. They live in this process, and end with it.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<BTreeMap<SessionId, Session>>);

impl Sessions {
    pub(crate) fn find(&self, id: &SessionId) -> Option<Session> {
        self.lock().get(id).cloned()
    }

    pub(crate) fn take_all(&self) -> Vec<Session> {
        std::mem::take(&mut *self.lock()).into_values().collect()
    }

    fn add(&self, session: &Session) -> Result<(), Refusal> {
        let mut all = self.lock();
        if all.len() >= SESSIONS_MAX {
            return Err(Refusal::limit(
                format!("could not make a session: this run has {SESSIONS_MAX}, and that is the most"),
                "End some of them.",
            ));
        }
        all.insert(session.id().clone(), session.clone());
        Ok(())
    }

    fn remove(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) async fn make(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(request): Asked<SessionRequest>,
) -> Result<Answer<AcquireAnswer>, Refusal> {
    caller.must_be_the_run()?;
    check_words(&request)?;
    if request.ttl_ms.is_some() || request.node.is_some() || request.detached {
        return Err(Refusal::invalid(
            "could not use ttl_ms, node or detached: a session of a run lives as long as the run, and where it does",
            "Leave them out.",
        ));
    }
    let run = desk.standing().holder.who().clone();
    let who = Identity { label: request.label.or(run.label), pid: request.pid.or(run.pid), ..run };
    let session = Session::new(who, Keep::Attended)?;
    desk.sessions().add(&session)?;
    let token = Some(session.token().expose().into());
    let lock = LockAnswer::new(Outcome::Written, None);
    Ok(Answer(Outcome::Written, AcquireAnswer { lock, token }))
}

/// Refuses words that are too long to be shown beside a lock.
pub(crate) fn check_words(request: &SessionRequest) -> Result<(), Refusal> {
    for (name, words) in [("label", &request.label), ("node", &request.node)] {
        if words.as_ref().is_some_and(|words| words.len() > LABEL_BYTES_MAX) {
            return Err(Refusal::invalid(
                format!("could not use the {name}: it has more than {LABEL_BYTES_MAX} bytes"),
                format!("Use a shorter {name}."),
            ));
        }
    }
    Ok(())
}

pub(crate) async fn end(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Answer<LockAnswer>, Refusal> {
    let Caller::Own(session) = caller else {
        return Err(Refusal::invalid(
            "could not end the session of the run: it ends with the run",
            "Release its locks, or end the run with bell kill or al-exit.",
        ));
    };
    desk.standing().locks.end(&session).await?;
    desk.sessions().remove(session.id());
    desk.quota().ended(session.id());
    Ok(Answer(Outcome::Ended, LockAnswer::new(Outcome::Ended, None)))
}
