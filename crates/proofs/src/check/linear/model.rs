//! A mutex with leases and fences, and what it answers.
//!
//! A lease may end once its ttl is over, counted from when it was asked for: that is what the store decides for, however
//! long the commit takes. It may also end once its release or its session's end was asked for, or its process went, if
//! nobody knows what came of that. It need not end then: an end that nobody noticed has not happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bell_core::acquire::GRACE;

use super::super::TOLERANCE_US;
use crate::history::{Answer, Ask, History, Op};

/// How long beyond everything else a request that got no answer may take to be carried out.
const STRAGGLE_US: u64 = 1_000_000;

/// A definite answer.
#[derive(Clone, Debug)]
pub(super) struct Step<'a> {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    session: &'a str,
    told: Told,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Granted {
        fence: u64,
        ttl_us: u64,
    },
    /// Because of this lease; `None`: because others are first in line.
    Busy(Option<u64>),
    TimedOut,
    Renewed {
        fence: u64,
        ttl_us: u64,
    },
    Released {
        fence: u64,
    },
    Over {
        fence: u64,
    },
    Ended,
}

/// The mutex at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    /// The earliest that this moment can be.
    now_us: u64,
    lease: Option<Lease>,
    last_fence: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Lease {
    /// `None`: of a request that was not told.
    session: Option<String>,
    fence: u64,
    /// The earliest that it can end.
    may_end_us: u64,
}

/// What there is to put in line, and what may have happened besides.
pub(super) struct Model<'a> {
    history: &'a History,
    key: &'a str,
    steps: Vec<Step<'a>>,
    /// Whose grants were answered, by fence.
    granted: BTreeMap<u64, &'a str>,
    /// Requests that may have got the lease without a word: no answer came, or one that waited was stopped for so long
    /// that its lease had run out before it looked.
    silent: Vec<&'a Op>,
    /// Requests that waited in the queue.
    waiters: Vec<&'a Op>,
}

impl<'a> Model<'a> {
    pub(super) fn of(history: &'a History, key: &'a str) -> Self {
        let about: Vec<&Op> = history.about(key).collect();
        let sessions: BTreeSet<&str> = about.iter().map(|op| op.session.as_str()).collect();
        let ends =
            history.ops.iter().filter(|op| op.ask == Ask::End && sessions.contains(op.session.as_str()));
        let mut steps: Vec<_> = about.iter().copied().chain(ends).filter_map(Step::of).collect();
        steps.sort_by_key(|step| step.from_us);
        let acquires = about.iter().copied().filter(|op| matches!(op.ask, Ask::Acquire { .. }));
        Self {
            history,
            key,
            steps,
            granted: about.iter().filter_map(|op| Some((op.grant()?, op.session.as_str()))).collect(),
            silent: acquires.clone().filter(|op| op.answer == Answer::Unknown || wait_us(op) > 0).collect(),
            waiters: acquires.filter(|op| wait_us(op) > 0).collect(),
        }
    }

    /// By the time of the question.
    pub(super) fn steps(&self) -> &[Step<'a>] {
        &self.steps
    }

    /// The mutex after it gave this answer; `None`: it would not.
    pub(super) fn after(&self, before: &State, step: &Step<'_>) -> Option<State> {
        let mut state = State { now_us: before.now_us.max(step.from_us), ..before.clone() };
        match step.told {
            Told::Granted { fence, ttl_us } => {
                if !state.is_held_by(step.session, fence) {
                    self.free(&mut state);
                    if fence <= state.last_fence {
                        return None;
                    }
                }
                state.give(Some(step.session), fence, step.from_us + ttl_us);
            }
            Told::Renewed { fence, ttl_us } if state.is_held_by(step.session, fence) => {
                state.give(Some(step.session), fence, step.from_us + ttl_us);
            }
            Told::Renewed { .. } => return None,
            Told::Released { fence } | Told::Over { fence } if state.is_held_by(step.session, fence) => {
                if matches!(step.told, Told::Over { .. }) {
                    self.free(&mut state);
                }
                state.lease = None;
            }
            // It was over before, or is somebody else's by now: nothing is touched.
            Told::Released { .. } | Told::Over { .. } => {}
            Told::Ended => {
                state.lease.take_if(|lease| lease.session.as_deref() == Some(step.session));
            }
            Told::Busy(Some(fence)) if state.fence() == Some(fence) => {}
            Told::Busy(Some(fence)) => self.give_silently(&mut state, step, fence)?,
            Told::Busy(None) => return self.another_waits(step).then_some(state),
            Told::TimedOut => {
                let is_held =
                    state.lease.as_ref().is_some_and(|lease| lease.session.as_deref() != Some(step.session));
                let explained =
                    is_held || self.another_waits(step) || self.may_have_got_it(step).next().is_some();
                return explained.then_some(state);
            }
        }
        (state.now_us <= step.to_us).then_some(state)
    }

    /// Moves on to when the lease can have ended, if there is one.
    fn free(&self, state: &mut State) {
        let Some(lease) = state.lease.take() else { return };
        let otherwise =
            lease.session.as_deref().map(|who| self.history.may_end_us(who, self.key, lease.fence));
        let ends_us = lease.may_end_us.min(otherwise.unwrap_or(u64::MAX));
        state.now_us = state.now_us.max(ends_us);
    }

    /// A lease that nobody was told of yet is that of a request which may have got it without a word, or it can't be.
    fn give_silently(&self, state: &mut State, step: &Step<'_>, fence: u64) -> Option<()> {
        // Whoever asked again later was told then.
        let owner = self.granted.get(&fence).copied();
        let mut got = self.may_have_got_it(step);
        if fence <= state.last_fence || !got.any(|op| owner.is_none_or(|owner| owner == op.session)) {
            return None;
        }
        self.free(state);
        // It may be at its end already.
        state.give(owner, fence, 0);
        Some(())
    }

    /// Requests by others that may hold the lease without a word while `step` is answered.
    fn may_have_got_it(&self, step: &Step<'_>) -> impl Iterator<Item = &Op> {
        let (session, from_us, to_us) = (step.session.to_owned(), step.from_us, step.to_us);
        let others = self.silent.iter().copied().filter(move |op| op.session != session);
        others.filter(move |op| op.asked_us <= to_us && last_effect_us(op) >= from_us)
    }

    /// Whether somebody else may have been in the queue meanwhile.
    fn another_waits(&self, step: &Step<'_>) -> bool {
        let mut others = self.waiters.iter().filter(|op| op.session != step.session);
        others.any(|op| op.asked_us <= step.to_us && last_effect_us(op) >= step.from_us)
    }
}

impl<'a> Step<'a> {
    fn of(op: &'a Op) -> Option<Self> {
        let told = match (op.ask, op.answer) {
            (Ask::Acquire { ttl_ms, .. }, Answer::Granted { fence, .. }) => {
                Told::Granted { fence, ttl_us: ttl_ms * 1_000 }
            }
            (Ask::Acquire { .. }, Answer::Busy { holder }) => Told::Busy(holder),
            (Ask::Acquire { .. }, Answer::TimedOut) => Told::TimedOut,
            (Ask::Renew { fence, ttl_ms }, Answer::Renewed { .. }) => {
                Told::Renewed { fence, ttl_us: ttl_ms * 1_000 }
            }
            (Ask::Release { fence }, Answer::Done) => Told::Released { fence },
            (Ask::Renew { fence, .. } | Ask::Release { fence }, Answer::Over) => Told::Over { fence },
            (Ask::End, Answer::Done) => Told::Ended,
            _ => return None,
        };
        // It looked for the last time when its time was up.
        let waited_us = if told == Told::TimedOut { wait_us(op) } else { 0 };
        let from_us = (op.asked_us + waited_us).min(op.answered_us);
        Some(Self { from_us, to_us: op.answered_us, session: &op.session, told })
    }
}

impl State {
    /// The fence of the lease.
    pub(super) fn fence(&self) -> Option<u64> {
        self.lease.as_ref().map(|lease| lease.fence)
    }

    /// Whether whatever can follow `other`, which has the same lease, can follow this.
    pub(super) fn allows_all_of(&self, other: &Self) -> bool {
        let end = |state: &Self| state.lease.as_ref().map(|lease| lease.may_end_us);
        self.now_us <= other.now_us && end(self) <= end(other) && self.last_fence <= other.last_fence
    }

    fn is_held_by(&self, session: &str, fence: u64) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| lease.fence == fence && lease.session.as_deref() == Some(session))
    }

    fn give(&mut self, session: Option<&str>, fence: u64, until_us: u64) {
        let may_end_us = until_us.saturating_sub(TOLERANCE_US);
        self.lease = Some(Lease { session: session.map(str::to_owned), fence, may_end_us });
        self.last_fence = fence;
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lease {
            Some(Lease { session: Some(session), fence, .. }) => write!(f, "{session} holding {fence}"),
            Some(Lease { session: None, fence, .. }) => write!(f, "somebody holding {fence}"),
            None => write!(f, "nobody holding it since {}", self.last_fence),
        }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |us: u64| us as f64 / 1e6;
        let (from, to) = (seconds(self.from_us), seconds(self.to_us));
        write!(f, "{:?} to {}, asked at {from:.3} s, answered at {to:.3} s", self.told, self.session)
    }
}

fn wait_us(op: &Op) -> u64 {
    match op.ask {
        Ask::Acquire { wait_ms, .. } => wait_ms * 1_000,
        _ => 0,
    }
}

/// Until when a request can be in the queue or, if it got no answer, have the lease.
fn last_effect_us(op: &Op) -> u64 {
    if op.answer != Answer::Unknown {
        return op.answered_us;
    }
    let Ask::Acquire { ttl_ms, .. } = op.ask else { return op.answered_us };
    // Without an answer at all, its process went or hung; it can't have asked anything for longer than it waited.
    let answered_us = if op.answered_us == u64::MAX { op.asked_us } else { op.answered_us };
    let waits_until_us = answered_us.max(op.asked_us + wait_us(op));
    let grace_us = if wait_us(op) > 0 { GRACE.as_micros() as u64 } else { 0 };
    waits_until_us + grace_us + ttl_ms * 1_000 + STRAGGLE_US
}
