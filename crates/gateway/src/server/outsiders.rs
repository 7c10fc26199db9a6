//! Sessions of programs outside of any run, as this node knows them.
//!
//! The store has the sessions; here is only what saves asking it each time: tokens that were proved lately, and which
//! sessions have a connection open and are kept alive because of it. A node that starts anew knows nothing of this and
//! asks, so nothing is lost with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_coord::keys::KeyName;
use bell_coord::{Coord, Denied, Session, Token, keeper};
use bell_core::session::{Identity, SESSION_TTL, SessionId};
use bell_store::clock::boottime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::limits::SESSIONS_PER_KEY_MAX;
use crate::quota::{Account, Quota};
use crate::refusal::Refusal;

/// How often those that have a connection open are looked through.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Heartbeats that are sent at the same time: a store takes so many in one go.
const BEATS_AT_ONCE: usize = 64;

/// The sessions that this node serves. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outsiders {
    coord: Coord,
    known: Arc<Mutex<Known>>,
    /// What they hold, which is forgotten with them.
    quota: Quota,
    stopping: CancellationToken,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<SessionId, Outsider>,
    /// On the boot clock: when those that are over were last forgotten.
    cleared: Duration,
    is_beating: bool,
}

struct Outsider {
    session: Session,
    /// The key that it was made with, where this node made it.
    made_with: Option<KeyName>,
    /// On the boot clock: when it was last heard of by the store, at the least.
    heard: Duration,
    ttl: Duration,
    /// Connections that keep it alive.
    open: usize,
}

impl Outsider {
    fn new(session: Session, made_with: Option<KeyName>, heard: Duration) -> Self {
        let ttl = session.ttl().unwrap_or(SESSION_TTL);
        Self { session, made_with, heard, ttl, open: 0 }
    }

    fn is_over(&self, now: Duration) -> bool {
        self.open == 0 && now >= self.heard + self.ttl
    }
}

/// Keeps a session alive until dropped.
pub(crate) struct Kept {
    all: Outsiders,
    session: SessionId,
}

impl Outsiders {
    pub(crate) fn new(coord: Coord, quota: Quota, stopping: CancellationToken) -> Self {
        Self { coord, known: Arc::default(), quota, stopping }
    }

    /// Makes a session for whoever has this key.
    pub(crate) async fn open(
        &self,
        who: Identity,
        ttl: Option<Duration>,
        key: &KeyName,
    ) -> Result<Session, Refusal> {
        self.room_for(key)?;
        let sent = boottime();
        let session = self.coord.open_session(who, ttl).await?;
        let made = Outsider::new(session.clone(), Some(key.clone()), sent);
        self.lock().sessions.insert(session.id().clone(), made);
        Ok(session)
    }

    /// The session that this token proves.
    pub(crate) async fn prove(&self, token: &Token) -> Result<Session, Refusal> {
        if let Some(session) = self.remembered(token, boottime()) {
            return if session.is_proved_by(token) { Ok(session) } else { Err(Denied::Unauthorized.into()) };
        }
        let sent = boottime();
        let (session, left) = self.coord.find_session(token).await?;
        if session.who().run.is_some() {
            return Err(Refusal::forbidden("could not act for a run here: its supervisor does that"));
        }
        let found = Outsider::new(session, None, sent);
        let heard = left.map_or(sent, |left| (sent + left).saturating_sub(found.ttl));
        let mut known = self.lock();
        known.clear(sent, &self.quota);
        // Two requests may have asked at once; they are to share what they learn.
        let outsider = known.sessions.entry(token.session().clone()).or_insert(found);
        outsider.heard = outsider.heard.max(heard);
        Ok(outsider.session.clone())
    }

    /// A session that must be alive, as far as this node knows.
    fn remembered(&self, token: &Token, now: Duration) -> Option<Session> {
        let known = self.lock();
        let outsider = known.sessions.get(token.session())?;
        (!outsider.is_over(now) && !outsider.session.is_over()).then(|| outsider.session.clone())
    }

    /// Who what a session holds counts for.
    pub(crate) fn account(&self, session: &SessionId) -> Account {
        let known = self.lock();
        match known.sessions.get(session).and_then(|one| one.made_with.as_ref()) {
            Some(key) => Account::Key(key.to_string()),
            None => Account::Session(session.clone()),
        }
    }

    /// Takes note that the store has heard of a session by a request that left at `sent`.
    pub(crate) fn heard(&self, session: &SessionId, sent: Duration) {
        if let Some(known) = self.lock().sessions.get_mut(session) {
            known.heard = known.heard.max(sent);
        }
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.lock().sessions.remove(session);
        self.quota.ended(session);
    }

    /// Keeps a session alive while something of its owner is here.
    pub(crate) fn keep(&self, session: &Session) -> Kept {
        let mut known = self.lock();
        let outsider = known.sessions.entry(session.id().clone());
        // One that was forgotten meanwhile is heard of at once.
        outsider.or_insert_with(|| Outsider::new(session.clone(), None, Duration::ZERO)).open += 1;
        if !std::mem::replace(&mut known.is_beating, true) {
            keeper::run(self.clone().beat());
        }
        Kept { all: self.clone(), session: session.id().clone() }
    }

    /// Refuses one more session of a key that has too many.
    fn room_for(&self, key: &KeyName) -> Result<(), Refusal> {
        let mut known = self.lock();
        known.clear(boottime(), &self.quota);
        let made = known.sessions.values().filter(|one| one.made_with.as_ref() == Some(key)).count();
        if made < SESSIONS_PER_KEY_MAX {
            return Ok(());
        }
        Err(Refusal::limit(
            format!(
                "could not make a session: the key {key} has {SESSIONS_PER_KEY_MAX}, and that is the most"
            ),
            "End some of them, or let several tasks share one.",
        ))
    }

    /// Sends the heartbeats of sessions whose connections are open, until there are none.
    async fn beat(self) {
        while !self.stopping.is_cancelled() {
            let due = self.lock().due(boottime());
            let Some(due) = due else { return };
            for some in due.chunks(BEATS_AT_ONCE) {
                let mut beats = JoinSet::new();
                some.iter().for_each(|session| drop(beats.spawn(self.clone().prolong(session.clone()))));
                beats.join_all().await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn prolong(self, session: Session) {
        let sent = boottime();
        match self.coord.prolong(&session).await {
            Ok(()) => self.heard(session.id(), sent),
            Err(Denied::Lost(_)) => self.forget(session.id()),
            // It is tried again in a moment.
            Err(error) => tracing::warn!(%error, session = %session.id(), "could not keep a session alive"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The sessions whose heartbeat is due; `None` if no session has a connection open.
    fn due(&mut self, now: Duration) -> Option<Vec<Session>> {
        let mut open = self.sessions.values().filter(|one| one.open > 0).peekable();
        self.is_beating = open.peek().is_some();
        let due = open.filter(|one| now >= one.heard + one.ttl / 3).map(|one| one.session.clone());
        let due: Vec<Session> = due.collect();
        self.is_beating.then_some(due)
    }

    /// Forgets those that nobody has kept alive through this node.
    fn clear(&mut self, now: Duration, quota: &Quota) {
        if now.saturating_sub(self.cleared) < LOOK_EVERY {
            return;
        }
        self.cleared = now;
        self.sessions.retain(|id, one| {
            let stays = !one.is_over(now) && !one.session.is_over();
            if !stays {
                quota.ended(id);
            }
            stays
        });
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(known) = self.all.lock().sessions.get_mut(&self.session) {
            known.open = known.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use bell_store::memory::Memory;

    use super::*;

    fn outsiders() -> Outsiders {
        Outsiders::new(Coord::new(Arc::new(Memory::new())), Quota::new(usize::MAX), CancellationToken::new())
    }

    fn key(name: &str) -> KeyName {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn a_token_is_proved_by_the_store_where_this_node_knows_nothing_of_it() {
        let first = outsiders();
        let session = first.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.unwrap();
        let second = Outsiders::new(first.coord.clone(), Quota::new(usize::MAX), CancellationToken::new());
        assert_eq!(second.prove(&session.token()).await.unwrap().id(), session.id());
        let other = first.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.unwrap();
        let forged = format!("{}.{}", session.id(), other.token().expose().split_once('.').unwrap().1);
        let forged = Token::parse(&forged).unwrap();
        assert_eq!(first.prove(&forged).await.err().unwrap().status.as_u16(), 401);
        assert_eq!(second.prove(&forged).await.err().unwrap().status.as_u16(), 401);
    }

    #[tokio::test]
    async fn a_session_that_has_ended_is_lost_to_whoever_shows_its_token() {
        let all = outsiders();
        let session = all.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.unwrap();
        all.coord.end(&session).await.unwrap();
        assert_eq!(all.prove(&session.token()).await.err().unwrap().status.as_u16(), 410);
    }

    #[tokio::test]
    async fn the_token_of_a_run_is_for_its_supervisor() {
        let all = outsiders();
        let who = Identity { run: Some("r1".to_owned()), ..Identity::default() };
        let session = all.coord.open_session(who, Some(SESSION_TTL)).await.unwrap();
        assert_eq!(all.prove(&session.token()).await.err().unwrap().status.as_u16(), 403);
    }

    #[tokio::test]
    async fn a_key_has_so_many_sessions_and_room_again_when_they_are_over() {
        let all = outsiders();
        let session = all.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.unwrap();
        let fill = |heard: Duration| {
            let mut known = all.lock();
            for number in 0..SESSIONS_PER_KEY_MAX {
                let one = Outsider::new(session.clone(), Some(key("ci")), heard);
                known.sessions.insert(SessionId::from(format!("s{number}").as_str()), one);
            }
            known.cleared = Duration::ZERO;
        };
        fill(boottime());
        let refused = all.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.err().unwrap();
        assert_eq!(refused.status.as_u16(), 429);
        all.open(Identity::default(), Some(SESSION_TTL), &key("other")).await.unwrap();
        fill(boottime().saturating_sub(SESSION_TTL));
        all.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.unwrap();
    }

    #[tokio::test]
    async fn a_session_is_heard_of_while_a_connection_is_open_and_no_longer() {
        let all = outsiders();
        let session = all.open(Identity::default(), Some(SESSION_TTL), &key("ci")).await.unwrap();
        let later = boottime() + SESSION_TTL / 2;
        let kept = all.keep(&session);
        assert_eq!(all.lock().due(later).map(|due| due.len()), Some(1));
        assert_eq!(all.lock().due(boottime()).map(|due| due.len()), Some(0), "it was made a moment ago");
        drop(kept);
        assert!(all.lock().due(later).is_none());
    }
}
