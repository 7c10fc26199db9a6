//! The loop: load what a decision asks for, commit what it answers, decide again if the world moved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bell_core::key::Key;
use bell_core::time::Timestamp;
use bell_core::view::{Changes, Decided, InOrder, Missing, Seen, View};
use bell_store::clock::boottime;
use bell_store::{Committed, Error, Kind, Name, Outcome, Txn};

use crate::Coord;
use crate::audit;
use crate::backoff::{self, InDoubt, Next};
use crate::demand;
use crate::denied::Denied;
use crate::load::Loaded;
use crate::turns::Turn;

/// Tries in a row before a request gives up, if they also took [`LONGEST_CONTEST`]. Each conflict means that somebody else
/// succeeded. Where two take turns at a store's lock, one can be a step behind the other a thousand times within a second.
const MANY_TRIES: usize = 1_000;

/// Longer than a rival is always a step ahead: it has other things to do now and then.
const LONGEST_CONTEST: Duration = Duration::from_secs(30);

/// Nobody is that unlucky: the store lies.
const MAX_TRIES: usize = 100 * MANY_TRIES;

/// Conflicts in a row in which nothing had changed but the time: deciding takes longer than a decision may
/// be old, and will again.
const MAX_LATE: usize = 8;

/// A decision that stands.
pub(crate) struct Done<A> {
    pub(crate) answer: A,
    /// `None`: nothing had to be stored.
    pub(crate) committed: Option<Committed>,
    /// What was loaded, with the changes applied.
    pub(crate) loaded: Loaded,
    /// On this machine's boot clock, before the request that settled it left.
    pub(crate) sent: Duration,
    /// The decision rests on more records than one commit could expect.
    pub(crate) partial: bool,
    /// A commit got no answer on the way: what was found then may be its own doing.
    pub(crate) in_doubt: bool,
}

impl Coord {
    /// Decides until the decision stands.
    ///
    /// Reading is in boxes: a lock that is free is taken and given back without, and keeps no room for it.
    pub(crate) fn transact<A>(
        &self,
        loaded: Loaded,
        decide: impl Fn(&View) -> Decided<(A, Changes)>,
    ) -> impl Future<Output = Result<Done<A>, Denied>> {
        self.transact_with(Turn::AtOnce, loaded, decide)
    }

    /// The same for somebody who may have to wait for a turn.
    pub(crate) async fn transact_with<'t, A>(
        &'t self,
        mut turn: Turn<'t>,
        mut loaded: Loaded,
        decide: impl Fn(&View) -> Decided<(A, Changes)>,
    ) -> Result<Done<A>, Denied> {
        let mut doubt = InDoubt::default();
        let mut late = 0;
        let begun = boottime();
        for tries in 0..MAX_TRIES {
            if tries >= MANY_TRIES && boottime().saturating_sub(begun) >= LONGEST_CONTEST {
                break;
            }
            let (answer, changes) = self.decide(&mut turn, &mut loaded, &decide).await?;
            if changes.is_empty() {
                if loaded.guessed {
                    Box::pin(self.reload(&mut loaded)).await?;
                    continue;
                }
                let sent = loaded.sent;
                let in_doubt = doubt.is_any();
                return Ok(Done { answer, committed: None, loaded, sent, partial: false, in_doubt });
            }
            let sent = boottime();
            let (txn, partial) = self.txn(&loaded, &changes)?;
            let expected: Option<BTreeSet<Name>> =
                partial.then(|| txn.expect.iter().map(|(name, _)| name.clone()).collect());
            match self.commit(txn).await {
                Ok(Outcome::Committed(committed)) => {
                    self.clock().told(committed.now);
                    drop(turn);
                    let unfinished = apply(&mut loaded.view, changes, committed);
                    self.serve_unfinished(unfinished).await;
                    let in_doubt = doubt.is_any();
                    return Ok(Done { answer, committed: Some(committed), loaded, sent, partial, in_doubt });
                }
                Ok(Outcome::Conflict(now)) => {
                    let seen = loaded.versions();
                    self.take_conflict(&mut loaded, expected.as_ref(), &now)?;
                    loaded.sent = sent;
                    late = if seen == loaded.versions() { late + 1 } else { 0 };
                    if late > MAX_LATE {
                        return Err(too_slow().into());
                    }
                }
                // It may have happened: every decision recognises its own traces, so look and decide again.
                Err(error) if error.kind() == Kind::Unknown => {
                    let Next::After(pause) = doubt.next() else { return Err(error.into()) };
                    Box::pin(backoff::wait(pause)).await;
                    Box::pin(self.reload(&mut loaded)).await.map_err(|_| error)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let message = "commit: other writers were faster all the time";
        Err(Error::new(Kind::Unavailable, message)
            .hint("try again, or spread the work over more keys")
            .into())
    }

    /// An answer that changes nothing but must be exact: everything it rests on is read again as of one
    /// revision, until a decision asks for nothing more.
    pub(crate) async fn confirm<A>(
        &self,
        mut loaded: Loaded,
        decide: impl Fn(&View) -> Decided<(A, Changes)>,
    ) -> Result<(A, Changes), Denied> {
        loop {
            self.reload(&mut loaded).await?;
            match decide(&loaded.view) {
                Ok(decided) => return Ok(decided),
                Err(missing) => self.load(&mut loaded, &missing).await?,
            }
        }
    }

    async fn decide<'t, A>(
        &'t self,
        turn: &mut Turn<'t>,
        loaded: &mut Loaded,
        decide: &impl Fn(&View) -> Decided<(A, Changes)>,
    ) -> Result<(A, Changes), Denied> {
        // What is read brings its time along; a guess needs one.
        if loaded.guessed && loaded.view.now == Timestamp::default() {
            loaded.view.now = self.time().await?;
        }
        loop {
            let decided = decide(&loaded.view);
            let awaited = turn.is_wanted_for(&loaded.view);
            match (decided, awaited) {
                (Ok((answer, changes)), None) => return Ok((answer, changes)),
                // There is nothing to be faster with.
                (Ok((answer, changes)), Some(_)) if changes.is_empty() => return Ok((answer, changes)),
                (Err(missing), None) => Box::pin(self.load(loaded, &missing)).await?,
                (decided, Some(key)) => {
                    let (key, missing) = (key.clone(), decided.err().unwrap_or_default());
                    *turn = Box::pin(self.await_turn(&key, missing, loaded)).await?;
                }
            }
        }
    }

    /// Waits for a turn to ask for this key, and has read then what had been read before, and what was missing.
    async fn await_turn(
        &self,
        key: &Key,
        mut missing: Missing,
        loaded: &mut Loaded,
    ) -> Result<Turn<'_>, Denied> {
        let mut seen = loaded.put_down();
        missing.locks.append(&mut seen.locks);
        missing.sessions.append(&mut seen.sessions);
        missing.rows.append(&mut seen.rows);
        let turn = self.turns().wait_for(key).await;
        self.read_in(loaded, &missing).await?;
        Ok(turn)
    }

    /// The store's time, asked for only if it has not told lately.
    pub(crate) async fn time(&self) -> Result<Timestamp, Denied> {
        if let Some(now) = self.clock().estimate() {
            return Ok(now);
        }
        let now = self.store().now().await?;
        self.clock().told(now);
        Ok(now)
    }

    /// The commit: everything the decision saw is expected, what it writes first, as far as one transaction holds it.
    /// Whether some of it is not.
    fn txn(&self, loaded: &Loaded, changes: &Changes) -> Result<(Txn, bool), Denied> {
        let mut txn = demand::txn(self.space(), &loaded.view, changes)?;
        let most = self.store().info().limits.txn_ops - self.act().map_or(0, |_| audit::RECORDS);
        let partial = txn.expect.len() > most;
        txn.expect.truncate(most);
        Ok((txn, partial))
    }

    /// Serves queues that did not fit into one commit. Those in them look after themselves too, only
    /// later; so a failure here is not the caller's.
    async fn serve_unfinished(&self, keys: BTreeSet<Key>) {
        if keys.is_empty() {
            return;
        }
        let keys: Vec<Key> = keys.into_iter().collect();
        let serve = |view: &View| bell_core::keep::serve(view, &keys);
        if let Err(error) = Box::pin(self.in_nobodys_name().transact(Loaded::default(), serve)).await {
            tracing::warn!(%error, "could not serve the rest of a queue");
        }
    }
}

/// The view as it is after a commit: locks, sessions, and what had been looked at of the work. What else was written of it
/// is many records, and no next decision rests on them. Answers with the queues that were left unfinished.
fn apply(view: &mut View, changes: Changes, committed: Committed) -> BTreeSet<Key> {
    view.now = committed.now;
    for (key, mut lock) in changes.locks {
        if let Some(lock) = lock.as_mut().filter(|lock| lock.has_new_grant()) {
            Arc::make_mut(lock).stamp(committed.revision);
        }
        view.locks.insert(key, written(lock, committed));
    }
    for (id, session) in changes.sessions {
        view.sessions.insert(id, written(session, committed));
    }
    let mut rows = InOrder::of(&changes.rows);
    for (id, seen) in &mut view.rows {
        if let Some(row) = rows.get(id) {
            *seen = written(row.clone(), committed);
        }
    }
    changes.unfinished
}

fn written<T>(record: Option<Arc<T>>, committed: Committed) -> Seen<T> {
    Seen::known(record.map(|record| (record, committed.revision)))
}

/// Bytes that a lock with one holder fits into, and most sessions.
const RECORD_BYTES: usize = 256;

pub(crate) fn encode<T: serde::Serialize>(record: &T) -> Result<Vec<u8>, Denied> {
    let mut value = Vec::with_capacity(RECORD_BYTES);
    match serde_json::to_writer(&mut value, record) {
        Ok(()) => Ok(value),
        Err(error) => Err(Error::new(Kind::Invalid, "encode a record").because(error).into()),
    }
}

fn too_slow() -> Error {
    Error::new(Kind::Unavailable, "decide in time: too many wait for these keys, or this machine is too busy")
        .hint("try again later, or ask for fewer keys at once")
}
