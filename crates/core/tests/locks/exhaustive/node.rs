//! A state of the small world, and what may happen in it.

use std::sync::{Arc, LazyLock};
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
    /// How each actor asks; the first two alike.
    pub(crate) modes: [Mode; ACTORS],
    /// How many decisions may be made and not committed yet.
    pub(crate) undecided: usize,
    /// How often time may pass.
    pub(crate) ticks: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) world: Arc<World>,
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
    pub(crate) pending: Option<Arc<Decision>>,
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

/// An action, the state it leads to, and what happened on the way.
pub(crate) type Successor = (Move, Node, Event);

/// What an action led to.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) conflicts: usize,
    pub(crate) is_deadlock: bool,
    pub(crate) is_handover: bool,
}

/// The two keys.
pub(crate) static KEYS: LazyLock<[Key; 2]> = LazyLock::new(|| [key("a"), key("b")]);

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
        Self { world: Arc::new(world), actors, ticks: setting.ticks, crashes: 1 }
    }

    /// Every state that one action leads to, with that action. A rule that an action breaks comes instead.
    pub(crate) fn successors(&self, setting: Setting) -> Result<Vec<Successor>, (Move, Broken)> {
        let mut found = Vec::new();
        let undecided = self.actors.iter().filter(|actor| actor.pending.is_some()).count();
        for (n, actor) in self.actors.iter().enumerate() {
            if self.world.gone.contains(&actor.id) {
                continue;
            }
            if self.crashes > 0 {
                found.push((Move::Crash(n), self.crashed(n), Event::default()));
            }
            if let Some(decision) = &actor.pending {
                let action = Move::Commit(n);
                let (next, event) = self.finished(n, decision).map_err(|broken| (action, broken))?;
                found.push((action, next, event));
                continue;
            }
            for deed in actor.deeds(n) {
                let decision = Arc::new(self.world.decide(actor.op(deed)));
                let action = Move::Act(n, deed);
                let (next, event) = self.finished(n, &decision).map_err(|broken| (action, broken))?;
                found.push((action, next, event));
                if undecided < setting.undecided && !decision.changes.is_empty() {
                    let mut next = self.clone();
                    next.actors[n].pending = Some(decision);
                    found.push((Move::Decide(n, deed), next, Event::default()));
                }
            }
        }
        if self.ticks > 0 {
            found.push((Move::Tick, self.later(), Event::default()));
        }
        Ok(found)
    }

    fn crashed(&self, n: usize) -> Self {
        let mut next = self.clone();
        Arc::make_mut(&mut next.world).gone.insert(self.actors[n].id.clone());
        next.crashes -= 1;
        next
    }

    fn later(&self) -> Self {
        let mut next = self.clone();
        Arc::make_mut(&mut next.world).pass(TICK);
        next.ticks -= 1;
        next.drop_conflicts();
        next
    }

    fn finished(&self, n: usize, decision: &Decision) -> Result<(Self, Event), Broken> {
        let mut next = self.clone();
        let actor = &mut next.actors[n];
        actor.pending = None;
        let mut answer = decision.answer.clone();
        if !decision.changes.is_empty() {
            let Ok(stamped) = Arc::make_mut(&mut next.world).commit(decision) else {
                return Ok((next, Event::default()));
            };
            answer = stamped;
            check::state(&next.world)?;
        }
        check::commit(&self.world, decision, &next.world)?;
        let mut event = Event {
            is_deadlock: matches!(answer, Answer::Acquired(Acquired::Deadlock(_))),
            is_handover: matches!(answer, Answer::Waiting(Waiting::Granted(_))),
            ..Event::default()
        };
        actor.hear(&decision.op, answer);
        event.conflicts = next.drop_conflicts();
        Ok((next, event))
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

    fn op(&self, deed: Deed) -> Op {
        let lease =
            |k: usize| LeaseName { session: self.id.clone(), key: KEYS[k].clone(), fence: self.leases[k] };
        match (deed, &self.waits) {
            (Deed::Try(keys), _) => Op::acquire(self.ask(keys, Duration::ZERO)),
            (Deed::WaitNear(keys), _) => Op::acquire(self.ask(keys, NEAR)),
            (Deed::WaitFar(keys), _) => Op::acquire(self.ask(keys, FAR)),
            (Deed::Release(k), _) => Op::Release(lease(k)),
            (Deed::Renew(k), _) => Op::Renew { lease: lease(k), ttl: None },
            (Deed::LookAfter, Some(waits)) => Op::LookAfter(waits.clone()),
            (Deed::GiveUp, Some(waits)) => Op::Leave(waits.clone()),
            (Deed::LookAfter | Deed::GiveUp, None) => panic!("it does not wait"),
            (Deed::Heartbeat, _) => Op::Heartbeat { session: self.id.clone(), ttl: Some(LEASE) },
        }
    }

    fn ask(&self, keys: Keys, wait: Duration) -> Acquire {
        Acquire {
            session: self.id.clone(),
            request: request(&format!("{}-{}", self.id, self.asked)),
            keys: match keys {
                Keys::One(k) => vec![KEYS[k].clone()],
                Keys::Both => KEYS.to_vec(),
            },
            mode: self.mode,
            ttl: ttl(LEASE),
            wait,
            new_session: None,
            call: None,
        }
    }

    fn hear(&mut self, op: &Op, answer: Answer) {
        // The next request is another one.
        self.asked += u32::from(matches!(op, Op::Acquire(_)));
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
                let own = KEYS.iter().position(|name| *name == lease.key);
                self.leases[own.expect("one of the two keys")] = None;
            }
            _ => {}
        }
    }

    fn hold(&mut self, leases: &[Lease]) {
        for lease in leases {
            let own = KEYS.iter().position(|name| *name == lease.key);
            self.leases[own.expect("one of the two keys")] = lease.fence;
        }
    }
}
