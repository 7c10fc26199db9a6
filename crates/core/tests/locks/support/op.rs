//! Every command as data, so that one world can carry out any of them now or later.

use std::time::Duration;

use bell_core::acquire::{Acquire, Acquired, Lease, PublicHolder, acquire};
use bell_core::end::{Heard, break_lock, end_session, heartbeat};
use bell_core::keep::{Kept, Left, Waiting, leave, look_after, release, renew, serve};
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_core::session::{RequestId, SessionId};
use bell_core::time::Revision;
use bell_core::view::{Changes, Decided, View};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Acquire(Box<Acquire>),
    Renew { lease: LeaseName, ttl: Option<Ttl> },
    Release(LeaseName),
    LookAfter(Request),
    Leave(Request),
    Serve(Vec<Key>),
    Heartbeat { session: SessionId, ttl: Option<Duration> },
    End { session: SessionId, held: Vec<Key> },
    Break(Key),
}

/// The lease that a renewal or release means.
#[derive(Clone, Debug)]
pub(crate) struct LeaseName {
    pub(crate) session: SessionId,
    pub(crate) key: Key,
    pub(crate) fence: Option<Fence>,
}

/// A request that was queued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) session: SessionId,
    pub(crate) request: RequestId,
    pub(crate) keys: Vec<Key>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Acquired(Acquired),
    Kept(Kept),
    Waiting(Waiting),
    Left(Left),
    Heard(Heard),
    Broken(Vec<PublicHolder>),
    Done,
}

impl Op {
    pub(crate) fn acquire(ask: Acquire) -> Self {
        Self::Acquire(Box::new(ask))
    }

    pub(crate) fn decide(&self, view: &View) -> Decided<(Answer, Changes)> {
        match self {
            Self::Acquire(ask) => acquire(view, ask).map(|(answer, c)| (Answer::Acquired(answer), c)),
            Self::Renew { lease, ttl } => renew(view, &lease.session, &lease.key, lease.fence, *ttl)
                .map(|(answer, c)| (Answer::Kept(answer), c)),
            Self::Release(lease) => release(view, &lease.session, &lease.key, lease.fence)
                .map(|(answer, c)| (Answer::Kept(answer), c)),
            Self::LookAfter(Request { session, request, keys }) => {
                look_after(view, session, request, keys).map(|(answer, c)| (Answer::Waiting(answer), c))
            }
            Self::Leave(Request { session, request, keys }) => {
                leave(view, session, request, keys).map(|(answer, c)| (Answer::Left(answer), c))
            }
            Self::Serve(keys) => serve(view, keys).map(|((), c)| (Answer::Done, c)),
            Self::Heartbeat { session, ttl } => {
                heartbeat(view, session, *ttl).map(|(answer, c)| (Answer::Heard(answer), c))
            }
            Self::End { session, held } => end_session(view, session, held).map(|((), c)| (Answer::Done, c)),
            Self::Break(key) => {
                break_lock(view, key, "a test", "an operator").map(|(answer, c)| (Answer::Broken(answer), c))
            }
        }
    }
}

impl Answer {
    /// The answer as its caller reads it: grants of this commit have its revision as their fence.
    pub(crate) fn stamped(mut self, stamp: Revision) -> Self {
        for lease in self.leases_mut() {
            lease.fence.get_or_insert(Fence(stamp));
        }
        self
    }

    fn leases_mut(&mut self) -> &mut [Lease] {
        match self {
            Self::Acquired(Acquired::Granted(leases))
            | Self::Waiting(Waiting::Granted(leases))
            | Self::Left(Left::Granted(leases)) => leases,
            _ => &mut [],
        }
    }
}
