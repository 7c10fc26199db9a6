//! Commits on their way to etcd, over one wire.
//!
//! Whoever comes while nobody is on the way goes alone, without a task in between. For those who come meanwhile there is
//! a ferry, one at a time: while it is away they gather, and then go together. It waits for nobody who went alone:
//! that one's task may have other things to do.
//!
//! Whoever goes alone hardly ever conflicts, and goes in the hope of that: what to read if it does is left out, which makes
//! a quarter less for etcd to write. Where that was wrong the records are read by themselves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Error, Kind, Name, Outcome, Result, Snapshot, Txn};
use etcd_client::TxnResponse;
use tokio::sync::oneshot;

use crate::commit::{self, Ended};
use crate::fault::Fault;
use crate::keys::Keys;
use crate::line::{Reached, Reading};
use crate::reading::{self, Page};
use crate::timekeeper::Timekeeper;
use crate::together;
use crate::wire::{TIME_LIMIT, Twice, Wire};

/// Who has waited for longer is not sent any more: etcd does not answer, and a request may take as long again.
const MAX_WAIT: Duration = Duration::from_millis(2_500);
const _: () = assert!(MAX_WAIT.as_millis() < TIME_LIMIT.as_millis());

/// Commits that go alone and without hope after one conflicted: whoever it met is likely to be there for a while.
const WARY: usize = 16;

/// A way to the store, and those who wait to take it.
pub(crate) struct Lane {
    pub(crate) wire: Arc<Wire>,
    pub(crate) keys: Keys,
    pub(crate) timekeeper: Arc<Timekeeper>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Commit>,
    is_somebody_alone: bool,
    /// There is one whenever somebody waits.
    is_ferry: bool,
    /// Commits still to go without hope.
    wary: usize,
}

/// A commit that waits for its turn.
struct Commit {
    txn: Txn,
    /// The time when it was asked for.
    called: Reading,
    /// On this machine's boot clock.
    asked: Duration,
    answer: oneshot::Sender<Result<Outcome>>,
}

impl Lane {
    pub(crate) fn new(wire: Arc<Wire>, keys: Keys, timekeeper: Arc<Timekeeper>) -> Self {
        Self { wire, keys, timekeeper, queue: Mutex::default() }
    }

    /// Another way to the same store, over connections of its own.
    pub(crate) fn beside(&self) -> Self {
        Self::new(Arc::new(self.wire.beside()), self.keys.clone(), Arc::clone(&self.timekeeper))
    }

    pub(crate) async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        let page = reading::read(&self.wire, &self.keys, names).await?;
        self.snapshot(page, usize::MAX).await
    }

    pub(crate) async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        let range = self.keys.scan(prefix, from);
        let page = reading::scan(&self.wire, &self.keys, range, limit).await?;
        self.snapshot(page, limit).await
    }

    async fn snapshot(&self, page: Page, limit: usize) -> Result<Snapshot> {
        self.timekeeper.adopt(&page.meta);
        let now = self.timekeeper.read().await?.now;
        let more = page.gathered.len() > limit;
        Ok(Snapshot { revision: page.meta.revision(), now, records: page.gathered.records(limit)?, more })
    }

    /// Dropped half-way, it has happened or not, and nobody else's commit is affected.
    pub(crate) async fn commit(self: &Arc<Self>, txn: Txn) -> Result<Outcome> {
        let called = self.timekeeper.read().await?;
        if !called.allows(txn.at) {
            return self.conflict(&txn).await;
        }
        if txn.writes.is_empty() {
            return self.check(&txn).await;
        }
        if let Some(turn) = self.turn_alone() {
            return self.commit_alone(&turn, &txn, called.reached()).await;
        }
        let (answer, answered) = oneshot::channel();
        self.hand_in(Commit { txn, called, asked: boottime(), answer });
        answered.await.unwrap_or_else(|_| Err(no_outcome()))
    }

    /// Whether everything is as expected.
    async fn check(&self, txn: &Txn) -> Result<Outcome> {
        let asked = self.wire.txn(Twice::Harmless, commit::check(&self.keys, txn)).await;
        let answer = asked.map_err(|fault| self.wire.reading(fault))?;
        let (ended, meta) = commit::checked(&self.keys, &answer)?;
        self.timekeeper.adopt(&meta);
        ended.at(self.timekeeper.read().await?)
    }

    /// The turn of one who goes alone; `None` if others are on the way.
    fn turn_alone(self: &Arc<Self>) -> Option<Turn> {
        let mut queue = self.lock();
        if queue.is_somebody_alone || queue.is_ferry {
            return None;
        }
        queue.is_somebody_alone = true;
        let mood = queue.mood();
        Some(Turn { lane: Arc::clone(self), mood })
    }

    fn hand_in(self: &Arc<Self>, commit: Commit) {
        let mut queue = self.lock();
        queue.waiting.push_back(commit);
        let was_ferry = std::mem::replace(&mut queue.is_ferry, true);
        drop(queue);
        if !was_ferry {
            // A task, since callers may go away, and others' commits with them. Ends when nobody waits.
            drop(tokio::spawn(Ferry { lane: Arc::clone(self), is_done: false }.go()));
        }
    }

    async fn commit_alone(&self, turn: &Turn, txn: &Txn, now: Reached) -> Result<Outcome> {
        let plan = match turn.mood {
            Mood::Hopeful => commit::hope(&self.keys, txn, now),
            Mood::Wary => commit::plan(&self.keys, &[txn], now),
        };
        let sent = self.wire.txn(Twice::Harmful, plan).await;
        let answer = sent.map_err(|fault| self.wire.writing(fault))?;
        if turn.mood == Mood::Hopeful && !answer.succeeded() {
            // It has surely not happened.
            self.lock().wary = WARY;
            return self.conflict(txn).await;
        }
        self.outcomes(&[txn], &answer, now).await.pop().unwrap_or_else(|| Err(no_outcome()))
    }

    /// What `txn` expects, as it is: it has to be decided again.
    async fn conflict(&self, txn: &Txn) -> Result<Outcome> {
        let names: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
        Ok(Outcome::Conflict(self.read(&names).await?))
    }

    /// What came of each.
    async fn send(&self, txns: &[&Txn], now: Reached) -> Result<Vec<Result<Outcome>>, Fault> {
        let answer = self.wire.txn(Twice::Harmful, commit::plan(&self.keys, txns, now)).await?;
        Ok(self.outcomes(txns, &answer, now).await)
    }

    async fn outcomes(&self, txns: &[&Txn], answer: &TxnResponse, now: Reached) -> Vec<Result<Outcome>> {
        if let Some((head, revision)) = commit::replaced_head(answer) {
            self.timekeeper.adopt_head(head, revision);
        }
        let mut outcomes = Vec::with_capacity(txns.len());
        for outcome in commit::outcomes(&self.keys, txns, answer) {
            outcomes.push(match outcome {
                Ok((ended, meta)) => {
                    meta.iter().for_each(|meta| self.timekeeper.adopt(meta));
                    self.told(ended, now).await
                }
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    async fn told(&self, ended: Ended, sent: Reached) -> Result<Outcome> {
        match (&ended, self.timekeeper.read().await) {
            (_, Ok(reading)) => ended.at(reading),
            // It has happened: the time it was sent at is good enough.
            (Ended::Committed(_), Err(_)) => ended.at(Reading::exact(sent)),
            (Ended::Conflict(..), Err(error)) => Err(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic half-way runs under this mutex.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of one who goes alone.
struct Turn {
    lane: Arc<Lane>,
    mood: Mood,
}

/// Whether somebody takes it that nothing is in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Hopeful,
    Wary,
}

impl Queue {
    /// That of the next who goes alone.
    fn mood(&mut self) -> Mood {
        match self.wary.checked_sub(1) {
            None => Mood::Hopeful,
            Some(left) => {
                self.wary = left;
                Mood::Wary
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.lane.lock().is_somebody_alone = false;
    }
}

/// Takes over those who wait.
struct Ferry {
    lane: Arc<Lane>,
    /// Nobody waited any more.
    is_done: bool,
}

impl Ferry {
    /// Goes, with all who wait, until nobody does.
    async fn go(mut self) {
        while let Some(party) = self.next() {
            self.lane.send_together(party).await;
            // Those who were just answered often have more to commit: let them in first.
            tokio::task::yield_now().await;
        }
    }

    /// Those who go next. `None`: nobody waits.
    fn next(&mut self) -> Option<Vec<Commit>> {
        let mut queue = self.lane.lock();
        let party = together::take(&mut queue.waiting, |commit| &commit.txn);
        // Under the same lock: for whoever comes next there is a ferry, or there will be a new one.
        self.is_done = party.is_empty();
        queue.is_ferry = !self.is_done;
        (!self.is_done).then_some(party)
    }
}

impl Drop for Ferry {
    fn drop(&mut self) {
        if !self.is_done {
            // The executor has ended, and with it those who wait.
            let mut queue = self.lane.lock();
            queue.is_ferry = false;
            queue.waiting.clear();
        }
    }
}

impl Lane {
    async fn send_together(&self, party: Vec<Commit>) {
        let is_late = |commit: &Commit| boottime().saturating_sub(commit.asked) > MAX_WAIT;
        let (late, party): (Vec<_>, Vec<_>) = party.into_iter().partition(is_late);
        self.fail(late, &Fault::late().before_sending());
        let txns: Vec<&Txn> = party.iter().map(|commit| &commit.txn).collect();
        let latest = party.iter().map(|commit| commit.called.reached()).max_by_key(|it| (it.line, it.at));
        let Some(now) = latest else { return };
        match self.send(&txns, now).await {
            Ok(outcomes) => {
                for (commit, outcome) in party.into_iter().zip(outcomes) {
                    // Whoever asked may have gone.
                    let _ = commit.answer.send(outcome);
                }
            }
            Err(fault) => self.fail(party, &fault),
        }
    }

    fn fail(&self, party: Vec<Commit>, fault: &Fault) {
        for commit in party {
            let _ = commit.answer.send(Err(self.wire.writing(fault.clone())));
        }
    }
}

fn no_outcome() -> Error {
    Error::new(Kind::Unknown, "commit to etcd: it ended half-way")
        .hint("Read the records again: it may have happened.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_conflict_those_who_go_alone_are_wary_for_a_while() {
        let mut queue = Queue::default();
        assert_eq!(queue.mood(), Mood::Hopeful);
        queue.wary = WARY;
        assert!((0..WARY).all(|_| queue.mood() == Mood::Wary));
        assert_eq!(queue.mood(), Mood::Hopeful);
    }
}
