//! A session as its owner has it: the secret, the record as last known, and how long it may be trusted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::session::{self, Identity, Proof, RequestId, Revoked, SESSION_TTL, Secret, SessionId};
use bell_core::time::Version;
use bell_store::Watch;
use bell_store::clock::boottime;
use bell_store::presence::Attendance;
use bell_store::txn::MAX_LAG;

use crate::Coord;
use crate::denied::Denied;
use crate::fresh;
use crate::load::{Loaded, decode};
use crate::space::Space;
use crate::told::Told;
use crate::transact::Done;

/// Who keeps a session alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// This process: by heartbeats, and where the store can notice, by being there. When it dies the
    /// session ends within 15 s.
    Attended,
    /// Nobody: each lease stands for itself until its ttl is over, whatever becomes of this process.
    Detached,
    /// Its owner, which is elsewhere, by heartbeats that may come through any process.
    Elsewhere,
}

/// A session and what proves it. Cheap to clone; all clones are the one session.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    id: SessionId,
    secret: Secret,
    who: Identity,
    state: Mutex<State>,
    /// On this machine's boot clock, in ms: until when the session is certainly alive. `u64::MAX`: its
    /// leases stand for themselves.
    trusted_until_ms: AtomicU64,
    news: Arc<Told<News>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.news.change(|news| news.abandoned = true);
    }
}

/// What a session's tasks wait for.
#[derive(Default)]
struct News {
    /// The last handle is gone.
    abandoned: bool,
    stored: bool,
    detached: bool,
    ended: bool,
    revoked: Vec<Revoked>,
}

struct State {
    keep: Keep,
    /// The space it is stored in.
    home: Option<Space>,
    /// The record and its version as last seen; `None`: not stored yet.
    known: Option<(Arc<session::Session>, Version)>,
    stored_once: bool,
    attendance: Option<Attendance>,
}

impl Session {
    /// A new session. It is stored with its first request, and belongs to the place it is stored in.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn new(who: Identity, keep: Keep) -> Result<Self, Denied> {
        let secret = fresh::secret()?;
        let id = SessionId::from(fresh::uuid().to_string().as_str());
        let state = State { keep, home: None, known: None, stored_once: false, attendance: None };
        Ok(owner(id, secret, who, state))
    }

    /// Names the session.
    pub fn id(&self) -> &SessionId {
        &self.inner.id
    }

    /// What anybody may know about it.
    pub fn who(&self) -> &Identity {
        &self.inner.who
    }

    /// What lets another process act for this session. Give it to its owner only.
    pub fn token(&self) -> Token {
        Token { id: self.inner.id.clone(), secret: self.inner.secret.clone() }
    }

    /// How long it outlives its last heartbeat; `None` if its leases stand for themselves.
    pub fn ttl(&self) -> Option<Duration> {
        let state = self.lock();
        let Some((record, _)) = &state.known else { return Some(SESSION_TTL) };
        record.expires.map(|_| record.ttl())
    }

    /// Whether this token proves the session, in time that does not depend on how much agrees.
    pub fn is_proved_by(&self, token: &Token) -> bool {
        self.inner.id == token.id && self.inner.secret.is(&token.secret)
    }

    /// Whether it was ended, or may have run out by now as far as this process knows.
    pub fn is_over(&self) -> bool {
        let until = Duration::from_millis(self.inner.trusted_until_ms.load(Ordering::Acquire));
        self.is_ended() || boottime() >= until
    }

    /// Returns when the session has ended, or may have run out as far as this process knows.
    pub async fn over(&self) {
        while !self.is_over() {
            let until = Duration::from_millis(self.inner.trusted_until_ms.load(Ordering::Acquire));
            // A later heartbeat moves the end, so it is looked at again when this one has come.
            let left = until.saturating_sub(boottime()).min(SESSION_TTL);
            tokio::select! {
                biased;
                () = self.inner.news.until(|news| news.ended) => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// On this machine's boot clock: the earliest moment at which the store may let the session end and give what it held
    /// to others. Every heartbeat moves it. Zero if it has ended; `None` if its leases stand for themselves.
    pub fn ends_at(&self) -> Option<Duration> {
        if self.is_ended() {
            return Some(Duration::ZERO);
        }
        let trusted_until_ms = self.inner.trusted_until_ms.load(Ordering::Acquire);
        (trusted_until_ms != u64::MAX).then(|| earliest_end(Duration::from_millis(trusted_until_ms)))
    }

    /// Whether it was ended, or found to have ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.inner.news.look().ended
    }

    pub(crate) fn keep(&self) -> Keep {
        self.lock().keep
    }

    pub(crate) fn mark_ended(&self) {
        self.inner.news.change(|news| news.ended = true);
        self.stop_attending();
    }

    /// Takes note of leases that were broken.
    pub(crate) fn revoke(&self, revoked: &[Revoked]) {
        if !revoked.is_empty() {
            // Added, not replaced: whoever waits for the one before may not have looked yet.
            self.inner.news.change(|news| {
                let new = revoked.iter().filter(|one| !news.revoked.contains(one));
                let new: Vec<Revoked> = new.cloned().collect();
                news.revoked.extend(new);
            });
        }
    }

    /// The operator's reason for breaking the lease with this fence, or the last one on the key, as far as it is known here.
    pub(crate) fn why_broken(&self, key: &Key, fence: Option<Fence>) -> Option<String> {
        let news = self.inner.news.look();
        let is_meant = |one: &&Revoked| one.key == *key && fence.is_none_or(|fence| one.fence == fence);
        news.revoked.iter().rev().find(is_meant).map(|one| one.reason.clone())
    }

    /// Who broke the lease with this fence, as far as it is known here.
    pub fn broken_by(&self, key: &Key, fence: Fence) -> Option<String> {
        let news = self.inner.news.look();
        let is_meant = |one: &&Revoked| one.key == *key && one.fence == fence;
        news.revoked.iter().find(is_meant).and_then(|one| one.by.clone())
    }

    /// Lets a lease wait for being broken.
    pub fn revocations(&self) -> Revocations {
        Revocations(Arc::clone(&self.inner.news))
    }

    pub(crate) fn downgrade(&self) -> WeakSession {
        let news = Arc::clone(&self.inner.news);
        WeakSession { id: self.inner.id.clone(), inner: Arc::downgrade(&self.inner), news }
    }

    /// What to watch for mail; `None` until the session was stored.
    pub(crate) fn mailbox(&self, coord: &Coord) -> Option<Watch> {
        let version = self.lock().known.as_ref().map(|(_, version)| *version)?;
        Some(Watch::Names(vec![(coord.space().session(&self.inner.id), version)]))
    }

    pub(crate) fn was_stored(&self) -> bool {
        self.lock().stored_once
    }

    /// The record to create with the first request; `None` once it was stored.
    pub(crate) async fn unborn(&self, coord: &Coord) -> Result<Option<Arc<session::Session>>, Denied> {
        if self.was_stored() {
            return Ok(None);
        }
        let expires = match self.keep() {
            Keep::Attended => Some(coord.time().await? + SESSION_TTL),
            Keep::Detached | Keep::Elsewhere => None,
        };
        let record = session::Session::new(self.inner.who.clone(), self.inner.secret.proof(), expires);
        Ok(Some(Arc::new(record)))
    }

    /// Assumes the record to be as last known.
    pub(crate) fn assume(&self, loaded: &mut Loaded) {
        let known = self.lock().known.clone();
        loaded.assume_session(&self.inner.id, known);
    }

    /// Takes note of the record as a decision left it.
    pub(crate) fn learn<A>(&self, done: &Done<A>) {
        let Some(seen) = done.loaded.view.sessions.get(&self.inner.id) else { return };
        let Some(record) = &seen.record else { return };
        if !self.was_stored() {
            self.trust_from(done.sent);
        }
        self.saw(Arc::clone(record), seen.version);
    }

    /// Takes note of the record as it was read. An older one than is known changes nothing.
    pub(crate) fn saw(&self, record: Arc<session::Session>, version: Version) {
        self.revoke(&record.revoked);
        let mut state = self.lock();
        if !std::mem::replace(&mut state.stored_once, true) {
            self.inner.news.change(|news| news.stored = true);
        }
        if state.known.as_ref().is_none_or(|(_, known)| version > *known) {
            state.known = Some((record, version));
        }
    }

    /// The session was heard of by a request that left at `sent`: it lives for its ttl from then, and its
    /// owner relies on a little less.
    pub(crate) fn trust_from(&self, sent: Duration) {
        let until = match self.keep() {
            Keep::Attended => u64::try_from((sent + SESSION_TTL - SESSION_MARGIN).as_millis()).unwrap_or(0),
            Keep::Detached | Keep::Elsewhere => u64::MAX,
        };
        self.inner.trusted_until_ms.store(until, Ordering::Release);
    }

    /// From now on nobody keeps the session: its leases stand for themselves.
    pub(crate) fn set_detached(&self) {
        self.lock().keep = Keep::Detached;
        self.inner.news.change(|news| news.detached = true);
        self.inner.trusted_until_ms.store(u64::MAX, Ordering::Release);
    }

    /// Its owner is elsewhere, and keeps it alive from there.
    pub(crate) fn set_elsewhere(&self) {
        let mut state = self.lock();
        if state.known.as_ref().is_some_and(|(record, _)| record.expires.is_some()) {
            state.keep = Keep::Elsewhere;
        }
    }

    /// What a store may keep of its secret.
    pub(crate) fn proof(&self) -> Proof {
        self.inner.secret.proof()
    }

    /// The record as last seen.
    pub(crate) fn record(&self) -> Option<Arc<session::Session>> {
        self.lock().known.as_ref().map(|(record, _)| Arc::clone(record))
    }

    /// Shows this process as present, where the store can notice its death. Whether that began only now.
    ///
    /// A session has one record, so it can't be used in two places.
    pub(crate) fn start_attending(&self, coord: &Coord) -> Result<bool, Denied> {
        let mut state = self.lock();
        if state.home.get_or_insert_with(|| coord.space().clone()) != coord.space() {
            return Err(Denied::Invalid(
                "this session belongs to another scope: use one for each".to_owned(),
            ));
        }
        if state.keep != Keep::Attended || state.attendance.is_some() {
            return Ok(false);
        }
        state.attendance = Some(coord.store().presence().attend(self.inner.id.as_str())?);
        Ok(true)
    }

    pub(crate) fn stop_attending(&self) {
        self.lock().attendance = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that was heard of within this time needs no heartbeat to be taken over.
const FRESH: Duration = Duration::from_secs(4);

/// How much earlier than the store a session's owner stops trusting it.
const SESSION_MARGIN: Duration = Duration::from_secs(3);

/// When the store may let a session end that its owner trusts until then. The decision of a heartbeat may be [`MAX_LAG`]
/// older than its commit, and the session's end counts from the decision.
fn earliest_end(trusted_until: Duration) -> Duration {
    trusted_until + SESSION_MARGIN - MAX_LAG
}

/// A session that this does not keep alive.
pub(crate) struct WeakSession {
    id: SessionId,
    inner: Weak<Inner>,
    news: Arc<Told<News>>,
}

impl WeakSession {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn upgrade(&self) -> Option<Session> {
        self.inner.upgrade().map(|inner| Session { inner })
    }

    /// Whether its leases were left to stand for themselves.
    pub(crate) fn is_detached(&self) -> bool {
        self.news.look().detached
    }

    /// Returns when the last handle is gone or the session has ended.
    pub(crate) async fn abandoned(&self) {
        self.news.until(|news| news.abandoned || news.ended).await;
    }

    /// Returns when the session has been stored for the first time.
    pub(crate) async fn stored(&self) {
        self.news.until(|news| news.stored).await;
    }
}

/// Lets a lease wait for being broken.
pub struct Revocations(Arc<Told<News>>);

impl Revocations {
    /// Returns with the operator's reason when that lease is broken.
    pub async fn of(&self, key: &Key, fence: Fence) -> String {
        let is_meant = |one: &Revoked| one.key == *key && one.fence == fence;
        self.0.until(|news| news.revoked.iter().any(is_meant)).await;
        let news = self.0.look();
        news.revoked.iter().find(|one| is_meant(one)).map(|one| one.reason.clone()).unwrap_or_default()
    }
}

/// A session's name and secret, for acting in it from another process. Its text is a password.
#[derive(Clone, Debug)]
pub struct Token {
    id: SessionId,
    secret: Secret,
}

impl Token {
    /// Names the session.
    pub fn session(&self) -> &SessionId {
        &self.id
    }

    /// The text to hand over: never in an argument, a URL or a log.
    pub fn expose(&self) -> String {
        let secret: String = self.secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{secret}", self.id)
    }

    /// Reads what [`Self::expose`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.trim().split_once('.')?;
        let id_is_plain = |id: &str| id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if id.is_empty() || id.len() > 64 || !id_is_plain(id) || secret.len() != 64 || !secret.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(secret.as_bytes().as_chunks().0) {
            let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
            *byte = u8::try_from(high? << 4 | low?).ok()?;
        }
        Some(Self { id: id.into(), secret: Secret::from_bytes(bytes) })
    }
}

/// A fresh name for a request.
pub fn new_request() -> RequestId {
    fresh::request()
}

impl Coord {
    /// Acts for a session that another process made, once its secret is proved. Nothing here keeps it
    /// alive.
    ///
    /// # Errors
    /// [`Denied::Unauthorized`] if the secret is not the session's, [`Denied::Lost`] if it has ended.
    pub async fn resume(&self, token: &Token) -> Result<Session, Denied> {
        let name = self.space().session(&token.id);
        let snapshot = self.store().read(std::slice::from_ref(&name)).await?;
        self.clock().told(snapshot.now);
        let Some(record) = snapshot.records.get(&name) else {
            return Err(Denied::Lost("the session has ended".to_owned()));
        };
        let session: session::Session = decode(&name, &record.value)?;
        if !session.proof.matches(&token.secret) {
            return Err(Denied::Unauthorized);
        }
        let who = session.who.clone();
        let known = Some((Arc::new(session), record.version));
        let home = Some(self.space().clone());
        let state = State { keep: Keep::Detached, home, known, stored_once: true, attendance: None };
        Ok(owner(token.id.clone(), token.secret.clone(), who, state))
    }

    /// Takes a session over: from now on this process keeps it alive, and it ends with this process.
    ///
    /// # Errors
    /// As for [`Self::resume`].
    pub async fn take_over(&self, token: &Token) -> Result<Session, Denied> {
        let sent = boottime();
        let session = self.resume(token).await?;
        session.lock().keep = Keep::Attended;
        self.be_present(&session)?;
        match self.left_of(&session).await? {
            // Made a moment ago, for whoever takes it over: the first regular heartbeat is soon enough.
            left if left > SESSION_TTL - FRESH => {
                session.trust_from((sent + left).saturating_sub(SESSION_TTL));
            }
            _ => self.beat(&session).await?,
        }
        Ok(session)
    }

    /// How long a session lasts without a heartbeat, at the least. Nothing, if it ends in another way.
    async fn left_of(&self, session: &Session) -> Result<Duration, Denied> {
        let expires = session.lock().known.as_ref().and_then(|(record, _)| record.expires);
        let Some(expires) = expires else { return Ok(Duration::ZERO) };
        Ok(Duration::from_millis(expires.as_ms().saturating_sub(self.time().await?.as_ms())))
    }
}

fn owner(id: SessionId, secret: Secret, who: Identity, state: State) -> Session {
    let trusted_until_ms = AtomicU64::new(u64::MAX);
    let inner = Inner { id, secret, who, state: Mutex::new(state), trusted_until_ms, news: Arc::default() };
    Session { inner: Arc::new(inner) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(key: &str, reason: &str) -> Revoked {
        Revoked { key: Key::parse(key).unwrap(), fence: Fence(7), reason: reason.to_owned(), by: None }
    }

    #[test]
    fn the_store_keeps_a_session_for_longer_than_its_owner_trusts_it_and_for_no_time_once_it_has_ended() {
        let session = Session::new(Identity::default(), Keep::Attended).unwrap();
        let sent = Duration::from_secs(100);
        session.trust_from(sent);
        assert_eq!(session.ends_at(), Some(sent + SESSION_TTL - MAX_LAG));
        session.mark_ended();
        assert_eq!(session.ends_at(), Some(Duration::ZERO));
    }

    #[test]
    fn a_session_whose_leases_stand_for_themselves_has_no_end() {
        let session = Session::new(Identity::default(), Keep::Detached).unwrap();
        session.trust_from(Duration::from_secs(100));
        assert_eq!(session.ends_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_leases_broken_in_a_row_both_are_told_although_nobody_looked_in_between() {
        let session = Session::new(Identity::default(), Keep::Detached).unwrap();
        let (first, second) = (broken("job:a", "it hangs"), broken("job:b", "it too"));
        let told = session.revocations();
        session.revoke(std::slice::from_ref(&first));
        session.revoke(&[second]);
        let told = tokio::time::timeout(SESSION_TTL, told.of(&first.key, first.fence)).await;
        assert_eq!(told.as_deref(), Ok("it hangs"));
    }
}
