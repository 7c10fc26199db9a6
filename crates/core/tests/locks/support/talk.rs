//! Commands as a test says them: decided, committed, and checked against every rule at once.

use std::time::Duration;

use bell_core::acquire::{Acquire, Acquired, Lease, PublicHolder};
use bell_core::end::Heard;
use bell_core::inspect::{LockState, inspect};
use bell_core::keep::{Kept, Left, Waiting};
use bell_core::lock::Fence;

use super::check;
use super::names::{key, keys, new_session, request, session};
use super::op::{Answer, LeaseName, Op, Request};
use super::world::{Decision, World};

impl World {
    /// A world with these sessions, which nobody has to keep alive.
    pub(crate) fn with(names: &[&str]) -> Self {
        let mut world = Self::new();
        for name in names {
            world.add_session(&session(name), new_session(&session(name), None));
        }
        world
    }

    /// Gives a session a heartbeat to live by.
    pub(crate) fn mortal(&mut self, name: &str, ttl: Duration) {
        let ends = self.now + ttl;
        self.add_session(&session(name), new_session(&session(name), Some(ends)));
    }

    pub(crate) fn crash(&mut self, name: &str) {
        self.gone.insert(session(name));
    }

    /// Decides and commits, and goes on until there is nothing left to do.
    pub(crate) fn run(&mut self, op: Op) -> Answer {
        loop {
            let decision = self.decide(op.clone());
            let answer = self.finish(&decision).expect("nothing moved in between");
            self.serve_to_the_end(&decision);
            if answer != Answer::Acquired(Acquired::Again) {
                return answer;
            }
        }
    }

    fn serve_to_the_end(&mut self, decision: &Decision) {
        let mut unfinished = decision.changes.unfinished.clone();
        while !unfinished.is_empty() {
            let next = self.decide(Op::Serve(unfinished.into_iter().collect()));
            self.finish(&next).expect("nothing moved in between");
            unfinished = next.changes.unfinished;
        }
    }

    /// Commits a decision made earlier and checks every rule.
    pub(crate) fn finish(&mut self, decision: &Decision) -> Result<Answer, super::world::Conflict> {
        let before = self.clone();
        let answer = self.commit(decision)?;
        let checked = check::commit(&before, decision, self).and_then(|()| check::state(self));
        if let Err(broken) = checked {
            panic!("{broken}\nafter {:?}", decision.op);
        }
        Ok(answer)
    }

    pub(crate) fn acquire(&mut self, ask: Acquire) -> Acquired {
        match self.run(Op::acquire(ask)) {
            Answer::Acquired(answer) => answer,
            other => panic!("not an answer to a request: {other:?}"),
        }
    }

    /// Takes keys that must be free for the asker.
    pub(crate) fn take(&mut self, ask: Acquire) -> Vec<Lease> {
        match self.acquire(ask) {
            Acquired::Granted(leases) => leases,
            other => panic!("should be granted, but {other:?}"),
        }
    }

    /// Queues for keys that must not be free.
    pub(crate) fn queue(&mut self, ask: Acquire) {
        let ask = ask.waiting();
        let answer = self.acquire(ask);
        assert!(matches!(answer, Acquired::Queued(_)), "should be queued, but {answer:?}");
    }

    pub(crate) fn renew(&mut self, who: &str, name: &str, fence: Option<Fence>) -> Kept {
        let lease = LeaseName { session: session(who), key: key(name), fence };
        match self.run(Op::Renew { lease, ttl: None }) {
            Answer::Kept(kept) => kept,
            other => panic!("not an answer to a renewal: {other:?}"),
        }
    }

    pub(crate) fn release(&mut self, who: &str, name: &str, fence: Option<Fence>) -> Kept {
        match self.run(Op::Release(LeaseName { session: session(who), key: key(name), fence })) {
            Answer::Kept(kept) => kept,
            other => panic!("not an answer to a release: {other:?}"),
        }
    }

    pub(crate) fn look_after(&mut self, who: &str, what: &str, names: &[&str]) -> Waiting {
        match self.run(Op::LookAfter(queued(who, what, names))) {
            Answer::Waiting(waiting) => waiting,
            other => panic!("not an answer to a waiter: {other:?}"),
        }
    }

    pub(crate) fn leave(&mut self, who: &str, what: &str, names: &[&str]) -> Left {
        match self.run(Op::Leave(queued(who, what, names))) {
            Answer::Left(left) => left,
            other => panic!("not an answer to giving up: {other:?}"),
        }
    }

    pub(crate) fn heartbeat(&mut self, who: &str, ttl: Option<Duration>) -> Heard {
        match self.run(Op::Heartbeat { session: session(who), ttl }) {
            Answer::Heard(heard) => heard,
            other => panic!("not an answer to a heartbeat: {other:?}"),
        }
    }

    pub(crate) fn end(&mut self, who: &str, held: &[&str]) {
        self.run(Op::End { session: session(who), held: keys(held) });
    }

    pub(crate) fn break_lock(&mut self, name: &str) -> Vec<PublicHolder> {
        match self.run(Op::Break(key(name))) {
            Answer::Broken(holders) => holders,
            other => panic!("not an answer to a break: {other:?}"),
        }
    }

    pub(crate) fn serve(&mut self, names: &[&str]) {
        self.run(Op::Serve(keys(names)));
    }

    /// A key as anybody sees it.
    pub(crate) fn inspect(&self, name: &str) -> LockState {
        self.load(|view| inspect(view, &key(name))).0
    }

    /// Who holds a key now, in order of their names.
    pub(crate) fn holders(&self, name: &str) -> Vec<String> {
        let mut names: Vec<_> = self.inspect(name).holders.iter().map(|h| h.session.to_string()).collect();
        names.sort();
        names
    }

    /// Who waits for a key now, first come first.
    pub(crate) fn waiters(&self, name: &str) -> Vec<String> {
        self.inspect(name).waiting.iter().map(|waiter| waiter.session.to_string()).collect()
    }

    /// The fence of a session's lease.
    pub(crate) fn fence(&self, who: &str, name: &str) -> Option<Fence> {
        self.lock(&key(name))?.held_by(&session(who))?.fence
    }
}

pub(crate) fn queued(who: &str, what: &str, names: &[&str]) -> Request {
    Request { session: session(who), request: request(what), keys: keys(names) }
}

/// How a test varies a request.
pub(crate) trait Vary {
    fn waiting(self) -> Self;
    fn waiting_for(self, wait: Duration) -> Self;
    fn shared(self) -> Self;
    fn lasting(self, ttl: Duration) -> Self;
}

impl Vary for Acquire {
    /// Waits for longer than any test lasts, unless it says how long.
    fn waiting(self) -> Self {
        let wait = if self.wait.is_zero() { super::names::LONG } else { self.wait };
        Self { wait, ..self }
    }

    fn waiting_for(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    fn shared(self) -> Self {
        Self { mode: bell_core::lock::Mode::Shared, ..self }
    }

    fn lasting(self, ttl: Duration) -> Self {
        Self { ttl: super::names::ttl(ttl), ..self }
    }
}
