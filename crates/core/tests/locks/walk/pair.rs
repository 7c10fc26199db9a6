//! The world and the model side by side: each command goes to both, and both must say the same.

use std::collections::BTreeSet;
use std::time::Duration;

use bell_core::acquire::{Acquire, Acquired};
use bell_core::end::Heard;
use bell_core::keep::{Kept, Left, Waiting};
use bell_core::key::Key;
use bell_core::lock::{Fence, Mode};
use bell_core::session::SessionId;

use super::command::{Command, KEYS, SESSIONS, Which};
use super::model::{GRACE, Model, Told, Want};
use crate::support::names::{key, new_session, request, ttl};
use crate::support::op::{Answer, LeaseName, Op, Request};
use crate::support::world::World;

const SESSION_MS: u64 = 60_000;

pub(crate) struct Pair {
    world: World,
    model: Model,
    /// Each session slot's present name changes when it is born again.
    births: Vec<u32>,
    requests: u32,
    /// What each slot asked for last.
    last: Vec<Option<Want>>,
    /// Every fence that a slot has had on a key, oldest first.
    fences: Vec<Vec<Vec<u64>>>,
    /// The highest fence that anybody has seen on a key.
    highest: Vec<u64>,
    pub(crate) answers: BTreeSet<String>,
}

fn name(n: usize) -> Key {
    key(&format!("k{n}"))
}

impl Pair {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let model = Model { now: world.now.as_ms(), ends: vec![0; SESSIONS], ..Model::default() };
        let mut pair = Self {
            world,
            model,
            births: vec![0; SESSIONS],
            requests: 0,
            last: vec![None; SESSIONS],
            fences: vec![vec![Vec::new(); KEYS]; SESSIONS],
            highest: vec![0; KEYS],
            answers: BTreeSet::new(),
        };
        (0..SESSIONS).for_each(|session| pair.bear(session));
        pair
    }

    pub(crate) fn step(&mut self, command: &Command) {
        match command {
            Command::Acquire { session, keys, shared, wait_ms, ttl_ms } => {
                self.requests += 1;
                let want = Want {
                    session: *session,
                    request: self.requests,
                    keys: keys.clone(),
                    shared: *shared,
                    ttl: *ttl_ms,
                    until: 0,
                    first_on: Vec::new(),
                };
                self.acquire(want, *wait_ms);
            }
            Command::CallAgain { session, wait_ms } => {
                if let Some(want) = self.last[*session].clone() {
                    self.acquire(want, *wait_ms);
                }
            }
            Command::Renew { session, key, which } => self.renew(*session, *key, *which),
            Command::Release { session, key, which } => self.release(*session, *key, *which),
            Command::Leave { session } => self.leave(*session),
            Command::Pass { ms } => {
                self.world.pass(Duration::from_millis(*ms));
                self.model.now += ms;
            }
            Command::Heartbeat { session } => self.heartbeat(*session),
            Command::Crash { session } => {
                self.world.gone.insert(self.id(*session));
                self.model.ends[*session] = 0;
            }
            Command::End { session, lists_leases } => {
                let keys: &[usize] = if *lists_leases { &[0, 1, 2, 3] } else { &[] };
                let held = keys.iter().map(|key| name(*key)).collect();
                self.world.run(Op::End { session: self.id(*session), held });
                self.model.ends[*session] = 0;
            }
            Command::Break { key } => self.break_lock(*key),
            Command::Reborn { session } => {
                if !self.model.alive(*session) {
                    self.bear(*session);
                }
            }
        }
        self.model.settle();
        self.world.run(Op::Serve((0..KEYS).map(name).collect()));
    }

    /// Both sides see the same holders and the same lines, and every lease keeps its one fence.
    pub(crate) fn compare(&mut self) {
        assert!(self.world.forgotten().is_empty(), "somebody waits for nothing: {:?}", self.world.locks);
        for k in 0..KEYS {
            let seen = self.world.inspect(&format!("k{k}"));
            let mut real: Vec<_> = seen.holders.iter().map(|h| (h.session.clone(), h.left)).collect();
            real.sort();
            let holds = self.model.holds.iter().filter(|hold| hold.key == k);
            let left = |expires: u64| Duration::from_millis(expires - self.model.now);
            let mut told: Vec<_> = holds.map(|h| (self.id(h.session), left(h.expires))).collect();
            told.sort();
            assert_eq!(real, told, "who holds k{k}");
            let line: Vec<_> = self.model.waiting(k).into_iter().map(|session| self.id(session)).collect();
            let queue: Vec<_> = seen.waiting.iter().map(|waiter| waiter.session.clone()).collect();
            assert_eq!(queue, line, "who waits for k{k}");
        }
        self.compare_fences();
    }

    fn compare_fences(&mut self) {
        let before = self.highest.clone();
        for n in 0..self.model.holds.len() {
            let (session, k) = (self.model.holds[n].session, self.model.holds[n].key);
            let lock = self.world.lock(&name(k)).expect("a held key has a record");
            let Fence(fence) = lock.held_by(&self.id(session)).and_then(|h| h.fence).expect("a fence");
            match self.model.holds[n].fence {
                Some(known) => assert_eq!(known, fence, "a lease has one fence"),
                None => {
                    assert!(fence > before[k], "fence {fence} of k{k} is not above {}", before[k]);
                    self.model.holds[n].fence = Some(fence);
                    self.fences[session][k].push(fence);
                    self.highest[k] = self.highest[k].max(fence);
                }
            }
        }
    }

    fn bear(&mut self, session: usize) {
        self.births[session] += 1;
        self.last[session] = None;
        let ends = self.world.now + Duration::from_millis(SESSION_MS);
        let id = self.id(session);
        self.world.add_session(&id, new_session(&id, Some(ends)));
        self.model.ends[session] = ends.as_ms();
    }

    fn id(&self, session: usize) -> SessionId {
        format!("s{session}.{}", self.births[session]).as_str().into()
    }

    fn fence(&self, session: usize, key: usize, which: Which) -> Option<u64> {
        let fences = self.fences[session][key].iter().rev();
        match which {
            Which::Whatever => None,
            Which::Newest => fences.copied().next(),
            Which::Older => fences.copied().nth(1),
        }
    }

    fn acquire(&mut self, want: Want, wait_ms: u64) {
        let until = self.model.now + wait_ms + GRACE;
        let want = Want { until, ..want };
        let overlaps = |other: &Want| {
            other.session == want.session
                && other.request != want.request
                && other.keys.iter().any(|key| want.keys.contains(key))
        };
        // What one session makes of several requests for one key at once has tests of its own.
        if self.model.line.iter().any(overlaps) {
            return;
        }
        let ask = Acquire {
            session: self.id(want.session),
            request: request(&want.request.to_string()),
            keys: want.keys.iter().map(|key| name(*key)).collect(),
            mode: if want.shared { Mode::Shared } else { Mode::Exclusive },
            ttl: ttl(Duration::from_millis(want.ttl)),
            wait: Duration::from_millis(wait_ms),
            new_session: None,
            call: None,
        };
        let Answer::Acquired(answer) = self.world.run(Op::acquire(ask)) else { panic!("not an answer") };
        let told = self.model.acquire(&want, wait_ms > 0);
        assert_eq!(self.acquired(&answer), told, "{want:?} got {answer:?}");
        let slot = want.session;
        self.last[slot] = Some(want);
        self.note(&told);
    }

    fn acquired(&self, answer: &Acquired) -> Told {
        match answer {
            Acquired::Granted(leases) => {
                let number = |key: &Key| (0..KEYS).find(|n| name(*n) == *key).expect("one of ours");
                Told::Granted(leases.iter().map(|l| (number(&l.key), l.already_held)).collect())
            }
            Acquired::Busy(_) => Told::Busy,
            Acquired::Queued(_) => Told::Queued,
            Acquired::Deadlock(_) => Told::Deadlock,
            Acquired::SessionEnded => Told::SessionEnded,
            Acquired::Again => unreachable!("the world asks again by itself"),
            Acquired::Upgrade(_) => Told::Upgrade,
        }
    }

    fn renew(&mut self, session: usize, k: usize, which: Which) {
        let fence = self.fence(session, k, which);
        let lease = LeaseName { session: self.id(session), key: name(k), fence: fence.map(Fence) };
        let answer = self.world.run(Op::Renew { lease, ttl: None });
        let told = self.model.renew(session, k, fence);
        assert_eq!(kept(&answer), told, "renewal of k{k} by {session}");
        self.note(&told);
    }

    fn release(&mut self, session: usize, k: usize, which: Which) {
        let fence = self.fence(session, k, which);
        let lease = LeaseName { session: self.id(session), key: name(k), fence: fence.map(Fence) };
        let answer = self.world.run(Op::Release(lease));
        let told = self.model.release(session, k, fence);
        assert_eq!(kept(&answer), told, "release of k{k} by {session}");
        self.note(&told);
    }

    fn leave(&mut self, session: usize) {
        let Some(want) = self.last[session].clone() else { return };
        let keys: Vec<Key> = want.keys.iter().map(|key| name(*key)).collect();
        let request =
            Request { session: self.id(session), request: request(&want.request.to_string()), keys };
        let waits = self.model.line.iter().any(|place| place.request == want.request);
        let looks = self.world.run(Op::LookAfter(request.clone()));
        assert_eq!(matches!(looks, Answer::Waiting(Waiting::Queued(_))), waits, "{want:?}: {looks:?}");
        let left = self.world.run(Op::Leave(request));
        self.model.line.retain(|place| place.request != want.request);
        match left {
            Answer::Left(Left::Gone) => drop(self.answers.insert("Gone".to_owned())),
            Answer::Left(Left::Granted(_)) => {
                assert!(!waits && want.keys.iter().all(|key| self.model.held(session, *key).is_some()));
                self.answers.insert("TooLate".to_owned());
            }
            other => panic!("not an answer: {other:?}"),
        }
    }

    fn heartbeat(&mut self, session: usize) {
        let ttl = Some(Duration::from_millis(SESSION_MS));
        let answer = self.world.run(Op::Heartbeat { session: self.id(session), ttl });
        let alive = self.model.alive(session);
        assert_eq!(matches!(answer, Answer::Heard(Heard::Alive(_))), alive);
        if alive {
            self.model.ends[session] = self.model.now + SESSION_MS;
        }
        self.answers.insert(if alive { "Alive" } else { "Ended" }.to_owned());
    }

    fn break_lock(&mut self, k: usize) {
        let Answer::Broken(holders) = self.world.run(Op::Break(name(k))) else { panic!("not an answer") };
        let held = self.model.holds.iter().filter(|hold| hold.key == k).count();
        assert_eq!(holders.len(), held);
        self.model.holds.retain(|hold| hold.key != k);
        if held > 0 {
            self.answers.insert("Broken".to_owned());
        }
    }

    fn note(&mut self, told: &Told) {
        if matches!(told, Told::Granted(keys) if keys.iter().any(|(_, before)| *before)) {
            self.answers.insert("Reentrant".to_owned());
        }
        let words = format!("{told:?}");
        self.answers.insert(words.split('(').next().unwrap_or_default().to_owned());
    }
}

fn kept(answer: &Answer) -> Told {
    match answer {
        Answer::Kept(Kept::Renewed(_)) => Told::Renewed,
        Answer::Kept(Kept::Released) => Told::Released,
        Answer::Kept(Kept::NotHolder(_)) => Told::NotHolder,
        Answer::Kept(Kept::NotHeld) => Told::NotHeld,
        other => panic!("not an answer: {other:?}"),
    }
}
