//! A state of the small world, and what may happen in it.

use std::time::Duration;

use bell_core::acquire::{Acquire, Acquired, Lease};
use bell_core::keep::{Kept, Left, Waiting};
use bell_core::key::Key;
use bell_core::lock::{Fence, Mode};
use bell_core::session::SessionId;

use crate::support::check::{self, Broken};
use crate::support::names::{key, new_session, request, session, ttl};
use crate::support::op::{Answer, LeaseName, Op, Request};
use crate::support::world::{Decision, Flaw, World};

/// How far the clock goes at a time.
pub(crate) const TICK: Duration = Duration::from_secs(10);
/// A lease outlives one tick, a place waited for «nearly» does not, the mortal session outlives one.
const LEASE: Duration = Duration::from_secs(15);
const NEAR: Duration = Duration::from_secs(1);
const FAR: Duration = Duration::from_secs(1_000);
pub(crate) const ACTORS: usize = 3;
/// Only this one needs heartbeats; two kinds of death are enough.
const MORTAL: usize = 2;

/// What a search varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) modes: [Mode; ACTORS],
    /// How many decisions may be made and not committed yet.
    pub(crate) undecided: usize,
    /// How often time may pass.
    pub(crate) ticks: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) actors: Vec<Actor>,
    pub(crate) ticks: u8,
    pub(crate) crashes: u8,
}

/// A client: what it believes, and what it has decided but not committed.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) id: SessionId,
    mode: Mode,
    /// The lease it thinks it has on each key.
    pub(crate) leases: [Option<Fence>; 2],
    pub(crate) waits: Option<Request>,
    pub(crate) pending: Option<Decision>,
    asked: u32,
}

/// One action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// Decides and commits at once.
    Act(usize, Deed),
    /// Decides only.
    Decide(usize, Deed),
    /// Commits what was decided.
    Commit(usize),
    Crash(usize),
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    Try(Keys),
    WaitNear(Keys),
    WaitFar(Keys),
    Release(usize),
    Renew(usize),
    LookAfter,
    GiveUp,
    Heartbeat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keys {
    One(usize),
    Both,
}

/// What an action led to.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) conflicts: usize,
    pub(crate) is_deadlock: bool,
    pub(crate) is_handover: bool,
}

pub(crate) fn names() -> [Key; 2] {
    [key("a"), key("b")]
}

impl Node {
    pub(crate) fn start(setting: Setting, flaw: Option<Flaw>) -> Self {
        let mut world = World::new();
        world.flaw = flaw;
        let mut actors = Vec::new();
        for (n, mode) in setting.modes.into_iter().enumerate() {
            let id = session(&format!("s{n}"));
            let ends = (n == MORTAL).then(|| world.now + LEASE);
            world.add_session(&id, new_session(&id, ends));
            actors.push(Actor { id, mode, leases: [None; 2], waits: None, pending: None, asked: 0 });
        }
        Self { world, actors, ticks: setting.ticks, crashes: 1 }
    }

    pub(crate) fn moves(&self, setting: Setting) -> Vec<Move> {
        let mut moves = Vec::new();
        let undecided = self.actors.iter().filter(|actor| actor.pending.is_some()).count();
        for (n, actor) in self.actors.iter().enumerate() {
            if self.world.gone.contains(&actor.id) {
                continue;
            }
            if self.crashes > 0 {
                moves.push(Move::Crash(n));
            }
            if actor.pending.is_some() {
                moves.push(Move::Commit(n));
                continue;
            }
            for deed in actor.deeds(n) {
                moves.push(Move::Act(n, deed));
                if undecided < setting.undecided {
                    moves.push(Move::Decide(n, deed));
                }
            }
        }
        if self.ticks > 0 {
            moves.push(Move::Tick);
        }
        moves
    }

    /// The state after an action; `None`: a decision that changes nothing is no state of its own.
    pub(crate) fn after(&self, action: Move) -> Result<Option<(Self, Event)>, Broken> {
        let mut next = self.clone();
        let mut event = Event::default();
        match action {
            Move::Tick => {
                next.world.pass(TICK);
                next.ticks -= 1;
            }
            Move::Crash(n) => {
                next.world.gone.insert(self.actors[n].id.clone());
                next.crashes -= 1;
            }
            Move::Decide(n, deed) => {
                let decision = next.decide(n, deed);
                if decision.changes.is_empty() {
                    return Ok(None);
                }
                next.actors[n].pending = Some(decision);
            }
            Move::Act(n, deed) => {
                let decision = next.decide(n, deed);
                next.finish(n, &decision, &mut event)?;
            }
            Move::Commit(n) => {
                let Some(decision) = next.actors[n].pending.take() else { return Ok(None) };
                next.finish(n, &decision, &mut event)?;
            }
        }
        event.conflicts = next.drop_conflicts();
        Ok(Some((next, event)))
    }

    fn decide(&mut self, n: usize, deed: Deed) -> Decision {
        let op = self.actors[n].op(deed);
        self.world.decide(op)
    }

    fn finish(&mut self, n: usize, decision: &Decision, event: &mut Event) -> Result<(), Broken> {
        let before = self.world.clone();
        let Ok(answer) = self.world.commit(decision) else { return Ok(()) };
        check::commit(&before, decision, &self.world)?;
        if !decision.changes.is_empty() {
            check::state(&self.world)?;
        }
        event.is_deadlock = matches!(answer, Answer::Acquired(Acquired::Deadlock(_)));
        event.is_handover = matches!(&answer, Answer::Waiting(Waiting::Granted(_)));
        self.actors[n].hear(&decision.op, answer);
        Ok(())
    }

    /// A decision on what has moved since can only conflict: its actor decides again.
    fn drop_conflicts(&mut self) -> usize {
        let mut conflicts = 0;
        if self.world.flaw != Some(Flaw::IgnoresCompare) {
            for actor in &mut self.actors {
                let conflict = actor.pending.take_if(|decision| !self.world.stands(decision));
                conflicts += usize::from(conflict.is_some());
            }
        }
        conflicts
    }
}

impl Actor {
    fn deeds(&self, n: usize) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for k in 0..2 {
            if self.leases[k].is_some() {
                deeds.extend([Deed::Release(k), Deed::Renew(k)]);
            } else if self.waits.is_none() {
                deeds.extend([Deed::Try(Keys::One(k)), Deed::WaitFar(Keys::One(k))]);
            }
        }
        if self.waits.is_some() {
            deeds.extend([Deed::LookAfter, Deed::GiveUp]);
        } else {
            deeds.extend([Deed::WaitNear(Keys::One(0)), Deed::WaitFar(Keys::Both)]);
        }
        if n == MORTAL {
            deeds.push(Deed::Heartbeat);
        }
        deeds
    }

    fn op(&mut self, deed: Deed) -> Op {
        let lease = |k: usize| LeaseName { session: self.id.clone(), key: names()[k].clone(), fence: self.leases[k] };
        match (deed, &self.waits) {
            (Deed::Try(keys), _) => Op::Acquire(self.ask(keys, Duration::ZERO)),
            (Deed::WaitNear(keys), _) => Op::Acquire(self.ask(keys, NEAR)),
            (Deed::WaitFar(keys), _) => Op::Acquire(self.ask(keys, FAR)),
            (Deed::Release(k), _) => Op::Release(lease(k)),
            (Deed::Renew(k), _) => Op::Renew { lease: lease(k), ttl: None },
            (Deed::LookAfter, Some(waits)) => Op::LookAfter(waits.clone()),
            (Deed::GiveUp, Some(waits)) => Op::Leave(waits.clone()),
            (Deed::LookAfter | Deed::GiveUp, None) => panic!("it does not wait"),
            (Deed::Heartbeat, _) => Op::Heartbeat { session: self.id.clone(), ttl: Some(LEASE) },
        }
    }

    fn ask(&mut self, keys: Keys, wait: Duration) -> Acquire {
        self.asked += 1;
        Acquire {
            session: self.id.clone(),
            request: request(&format!("{}-{}", self.id, self.asked)),
            keys: match keys {
                Keys::One(k) => vec![names()[k].clone()],
                Keys::Both => names().to_vec(),
            },
            mode: self.mode,
            ttl: ttl(LEASE),
            wait,
            new_session: None,
        }
    }

    fn hear(&mut self, op: &Op, answer: Answer) {
        match (op, answer) {
            (Op::Acquire(ask), Answer::Acquired(Acquired::Queued(_))) => {
                let (session, request) = (ask.session.clone(), ask.request.clone());
                self.waits = Some(Request { session, request, keys: ask.keys.clone() });
            }
            (_, Answer::Acquired(Acquired::Granted(leases))) => self.hold(&leases),
            (_, Answer::Waiting(Waiting::Granted(leases)) | Answer::Left(Left::Granted(leases))) => {
                self.waits = None;
                self.hold(&leases);
            }
            (_, Answer::Waiting(Waiting::Gone) | Answer::Left(Left::Gone)) => self.waits = None,
            (Op::Renew { .. }, Answer::Kept(Kept::Renewed(_))) => {}
            (Op::Renew { lease, .. } | Op::Release(lease), Answer::Kept(_)) => {
                let own = names().iter().position(|name| *name == lease.key);
                self.leases[own.expect("one of the two keys")] = None;
            }
            _ => {}
        }
    }

    fn hold(&mut self, leases: &[Lease]) {
        for lease in leases {
            let own = names().iter().position(|name| *name == lease.key);
            self.leases[own.expect("one of the two keys")] = lease.fence;
        }
    }
}
