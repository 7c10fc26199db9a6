//! Records, versions and a revision counter: what a store and `bell-coord` do for the decisions, in its
//! simplest form. A decision can be made now and committed later; whatever moved in between is a conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bell_core::acquire::{Acquire, Acquired};
use bell_core::key::Key;
use bell_core::lock::{Fence, Lock, Waiter};
use bell_core::session::{Session, SessionId, Wait};
use bell_core::time::{Revision, Timestamp, Version};
use bell_core::view::{Changes, Decided, View};

use super::op::{Answer, LeaseName, Op};

type Records<K, T> = BTreeMap<K, Arc<(Version, T)>>;

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) locks: Records<Key, Lock>,
    pub(crate) sessions: Records<SessionId, Session>,
    /// Sessions whose process is known to be dead.
    pub(crate) gone: BTreeSet<SessionId>,
    /// The highest fence ever granted on each key. No decision sees this.
    pub(crate) highest: BTreeMap<Key, Fence>,
    pub(crate) revision: Revision,
    pub(crate) flaw: Option<Flaw>,
}

/// A store refuses what was decided for a moment further back than this.
const MAX_LAG: Duration = Duration::from_millis(400);

/// A known way to get it wrong, to show that the checks notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// A commit does not compare what its decision saw.
    IgnoresCompare,
    /// A key's fences start again when its record is deleted.
    ForgetsFences,
    /// A dead session looks alive to every decision.
    BelievesTheDead,
    /// A release frees the key, whoever asks and whichever lease was meant.
    ReleasesForAnybody,
    /// A renewal extends whatever the session's record says, run out or not.
    RenewsWhatHasEnded,
    /// The last in the queue is served first.
    ServesTheLastFirst,
    /// A wait is queued where it should have been refused for a cycle.
    QueuesDeadlocks,
    /// A session's waits stay in its record after they are over.
    LeaksWaits,
}

/// A decision that was made but not committed yet.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) op: Op,
    pub(crate) view: View,
    pub(crate) answer: Answer,
    pub(crate) changes: Changes,
    /// Who was dead then, whatever the decision was told.
    pub(crate) gone: BTreeSet<SessionId>,
    locks: BTreeMap<Key, Version>,
    sessions: BTreeMap<SessionId, Version>,
}

/// Something that the decision saw has moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conflict;

impl World {
    pub(crate) fn new() -> Self {
        Self {
            now: Timestamp::from_ms(1_000_000),
            locks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            gone: BTreeSet::new(),
            highest: BTreeMap::new(),
            revision: 100,
            flaw: None,
        }
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    pub(crate) fn add_session(&mut self, id: &SessionId, session: Session) {
        self.revision += 1;
        self.sessions.insert(id.clone(), Arc::new((self.revision, session)));
    }

    pub(crate) fn lock(&self, key: &Key) -> Option<&Lock> {
        self.locks.get(key).map(|stored| &stored.1)
    }

    pub(crate) fn session(&self, id: &SessionId) -> Option<&Session> {
        self.sessions.get(id).map(|stored| &stored.1)
    }

    /// Loads whatever a decision asks for until it is made.
    pub(crate) fn load<T>(&self, decide: impl Fn(&View) -> Decided<T>) -> (T, View) {
        let mut view = View { now: self.now, ..View::default() };
        loop {
            let missing = match decide(&view) {
                Ok(decided) => return (decided, view),
                Err(missing) => missing,
            };
            assert!(!missing.locks.is_empty() || !missing.sessions.is_empty(), "asked for nothing");
            for key in missing.locks {
                let lock = self.lock(&key).cloned().map(Arc::new);
                assert!(view.locks.insert(key, lock.into()).is_none(), "asked for the same lock twice");
            }
            for id in missing.sessions {
                self.load_session(&mut view, id);
            }
        }
    }

    /// Decides on the world as it is now.
    pub(crate) fn decide(&self, op: Op) -> Decision {
        let ((answer, changes), view) = self.load(|view| op.decide(view));
        let locks = view.locks.keys().map(|key| (key.clone(), version(&self.locks, key))).collect();
        let sessions = view.sessions.keys().map(|id| (id.clone(), version(&self.sessions, id))).collect();
        let gone = self.gone.clone();
        let decision = Decision { op, view, answer, changes, gone, locks, sessions };
        match self.flaw {
            Some(flaw) => flaw.spoil(self, decision),
            None => decision,
        }
    }

    fn load_session(&self, view: &mut View, id: SessionId) {
        let mut session = self.session(&id).cloned();
        if self.flaw == Some(Flaw::BelievesTheDead) {
            session.iter_mut().for_each(|session| session.expires = None);
        } else if self.gone.contains(&id) {
            view.gone.insert(id.clone());
        }
        assert!(
            view.sessions.insert(id, session.map(Arc::new).into()).is_none(),
            "asked for the same session twice"
        );
    }

    /// Whether everything that a decision saw is still as it was, and it was not long ago.
    pub(crate) fn stands(&self, decision: &Decision) -> bool {
        self.now <= decision.view.now + MAX_LAG
            && decision.locks.iter().all(|(key, seen)| version(&self.locks, key) == *seen)
            && decision.sessions.iter().all(|(id, seen)| version(&self.sessions, id) == *seen)
    }

    /// Stores what was decided, if it still stands.
    pub(crate) fn commit(&mut self, decision: &Decision) -> Result<Answer, Conflict> {
        if !self.stands(decision) && self.flaw != Some(Flaw::IgnoresCompare) {
            return Err(Conflict);
        }
        if decision.changes.is_empty() {
            return Ok(decision.answer.clone());
        }
        self.revision += 1;
        for (key, lock) in &decision.changes.locks {
            self.store_lock(key, lock.as_deref().cloned());
        }
        for (id, session) in &decision.changes.sessions {
            match session {
                Some(session) => {
                    self.sessions.insert(id.clone(), Arc::new((self.revision, Session::clone(session))))
                }
                None => self.sessions.remove(id),
            };
        }
        Ok(decision.answer.clone().stamped(self.revision))
    }

    /// The world as it would be if this request were in the queue, whatever speaks against it.
    pub(crate) fn with_wait(&self, ask: &Acquire) -> Self {
        let mut world = self.clone();
        for key in &ask.keys {
            let stored = world.locks.entry(key.clone()).or_default();
            Arc::make_mut(stored).1.queue.push(Waiter {
                session: ask.session.clone(),
                request: ask.request.clone(),
                mode: ask.mode,
                since: self.now,
                ttl: ask.ttl,
                until: self.now + ask.wait,
                keys: if ask.keys.len() > 1 { ask.keys.clone() } else { Vec::new() },
                elsewhere: true,
            });
        }
        if let Some(stored) = world.sessions.get_mut(&ask.session) {
            let wait = Wait { request: ask.request.clone(), keys: ask.keys.clone() };
            Arc::make_mut(stored).1.waits.push(wait);
        }
        world
    }

    fn as_changes(&self, ask: &Acquire) -> Changes {
        let locks = ask.keys.iter().map(|key| (key.clone(), self.lock(key).cloned().map(Arc::new)));
        let session = (ask.session.clone(), self.session(&ask.session).cloned().map(Arc::new));
        Changes { locks: locks.collect(), sessions: BTreeMap::from([session]), ..Changes::default() }
    }

    fn store_lock(&mut self, key: &Key, lock: Option<Lock>) {
        let Some(lock) = lock else {
            self.locks.remove(key);
            return;
        };
        let forgetful = self.flaw == Some(Flaw::ForgetsFences) && !self.locks.contains_key(key);
        let stamp = if forgetful { 1 } else { self.revision };
        let lock = if lock.has_new_grant() { lock.stamped(stamp) } else { lock };
        for fence in lock.holders.iter().filter_map(|holder| holder.fence) {
            let highest = self.highest.entry(key.clone()).or_insert(fence);
            *highest = fence.max(*highest);
        }
        self.locks.insert(key.clone(), Arc::new((self.revision, lock)));
    }
}

fn version<K: Ord, T>(records: &Records<K, T>, name: &K) -> Version {
    records.get(name).map_or(0, |stored| stored.0)
}

impl Flaw {
    /// What a decision with this flaw would have been.
    fn spoil(self, world: &World, mut decision: Decision) -> Decision {
        match (self, &decision.op) {
            (Self::ReleasesForAnybody, Op::Release(LeaseName { key, .. })) => {
                let freed = world.lock(key).cloned().map(|lock| Lock { holders: Vec::new(), ..lock });
                let freed = freed.filter(|lock| !lock.is_empty());
                decision.changes.locks.entry(key.clone()).or_insert(freed.map(Arc::new));
            }
            (Self::RenewsWhatHasEnded, Op::Renew { lease, .. }) if decision.changes.is_empty() => {
                if let Some(mut lock) = world.lock(&lease.key).cloned() {
                    for holder in lock.holders.iter_mut().filter(|h| h.session == lease.session) {
                        holder.expires = world.now + holder.ttl.length();
                    }
                    decision.changes.locks.insert(lease.key.clone(), Some(Arc::new(lock)));
                }
            }
            (Self::ServesTheLastFirst, _) => {
                for lock in decision.changes.locks.values_mut().flatten() {
                    Arc::make_mut(lock).queue.reverse();
                }
            }
            (Self::QueuesDeadlocks, Op::Acquire(ask)) => {
                if matches!(decision.answer, Answer::Acquired(Acquired::Deadlock(_))) {
                    decision.changes = world.with_wait(ask).as_changes(ask);
                }
            }
            (Self::LeaksWaits, _) => {
                for (id, session) in &mut decision.changes.sessions {
                    if let (Some(after), Some(before)) = (session, world.session(id)) {
                        Arc::make_mut(after).waits.clone_from(&before.waits);
                    }
                }
            }
            _ => {}
        }
        decision
    }
}
