//! What the library says, as an answer: the one place where a refusal gets its outcome and its hint.

use std::time::Duration;

use bell_api::lock::{HolderAnswer, KeyFence, LockAnswer, Span, WaiterAnswer};
use bell_api::outcome::Outcome;
use bell_coord::{Denied, Lease, Session};
use bell_core::acquire::{Busy, PublicHolder};
use bell_core::inspect::{LockState, PublicWaiter};
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_store::clock::wall;
use bell_store::{Error, Kind};

/// A refusal as an answer.
pub fn refused(denied: &Denied, key: Option<&Key>) -> LockAnswer {
    let mut answer = LockAnswer::new(outcome(denied), key.cloned());
    let mut hint = answer.outcome.next();
    let mut message = denied.to_string();
    match denied {
        Denied::Busy(busy) | Denied::TimedOut(busy) => {
            add_busy(&mut answer, busy);
            if busy.queue_full {
                message.push_str(", and no more may wait for it");
            }
        }
        Denied::Deadlock(cycle) => answer.cycle = cycle.path(),
        Denied::NotHolder(holders) => {
            add_holders(&mut answer, holders);
            message = with_key(key, &message, "is");
        }
        Denied::NotHeld => message = with_key(key, &message, "is"),
        Denied::Unavailable(error) => {
            message = format!("could not {error}");
            if !error.advice().is_empty() {
                hint = error.advice();
            }
        }
        Denied::Lost(_) | Denied::Invalid(_) | Denied::Limit(_) | Denied::Unauthorized => {}
    }
    answer.hint = Some(hint.to_owned());
    answer.message = Some(message);
    answer
}

fn outcome(denied: &Denied) -> Outcome {
    match denied {
        Denied::Busy(_) => Outcome::Busy,
        Denied::TimedOut(_) => Outcome::TimedOut,
        Denied::Deadlock(_) => Outcome::Deadlock,
        Denied::NotHolder(_) => Outcome::NotHolder,
        Denied::NotHeld => Outcome::NotHeld,
        Denied::Lost(_) => Outcome::Lost,
        Denied::Invalid(_) => Outcome::Invalid,
        Denied::Limit(_) => Outcome::Limit,
        Denied::Unavailable(error) => of_store(error),
        Denied::Unauthorized => Outcome::Unauthorized,
    }
}

/// What is wrong with the request stays wrong; everything else may be better another time.
fn of_store(error: &Error) -> Outcome {
    match error.kind() {
        Kind::Invalid | Kind::Unsupported => Outcome::Invalid,
        Kind::Unauthorized => Outcome::Unauthorized,
        Kind::Unavailable
        | Kind::Unknown
        | Kind::ReadOnly
        | Kind::Full
        | Kind::Corrupt
        | Kind::TooNew
        | Kind::Rewound
        | Kind::Replaced => Outcome::Unavailable,
    }
}

fn with_key(key: Option<&Key>, message: &str, verb: &str) -> String {
    key.map_or_else(|| message.to_owned(), |key| format!("{key} {verb} {message}"))
}

fn add_busy(answer: &mut LockAnswer, busy: &Busy) {
    answer.key = Some(busy.key.clone());
    answer.waiting = u64::try_from(busy.waiting).ok();
    add_holders(answer, &busy.holders);
}

fn add_holders(answer: &mut LockAnswer, holders: &[PublicHolder]) {
    let Some((first, others)) = holders.split_first() else { return };
    answer.fence = first.fence;
    answer.ttl_ms = Some(ms(first.ttl.length()));
    answer.holder = Some(holder(first));
    answer.shared_with =
        others.iter().map(|other| HolderAnswer { fence: other.fence, ..holder(other) }).collect();
}

fn holder(holder: &PublicHolder) -> HolderAnswer {
    let span = Span { held_ms: ms(holder.held), left_ms: ms(holder.left) };
    HolderAnswer::new(holder.session.clone(), holder.who.clone(), holder.mode, span, ms(wall()))
}

/// A key as anybody may see it, with everybody who waits for it.
pub fn shown(shown: &LockState) -> LockAnswer {
    let waiter = |waiter: &PublicWaiter| {
        WaiterAnswer::new(waiter.session.clone(), waiter.who.clone(), waiter.mode, ms(waiter.waited))
    };
    LockAnswer { waiters: shown.waiting.iter().map(waiter).collect(), ..state(shown) }
}

/// A key as anybody may see it.
pub fn state(state: &LockState) -> LockAnswer {
    let outcome = if state.holders.is_empty() { Outcome::Free } else { Outcome::Held };
    let mut answer = LockAnswer::new(outcome, Some(state.key.clone()));
    add_holders(&mut answer, &state.holders);
    answer.waiting = u64::try_from(state.waiting.len()).ok();
    answer
}

/// A lease that its holder has just got or extended.
pub fn lease(outcome: Outcome, session: &Session, lease: &Lease) -> LockAnswer {
    let mut answer = LockAnswer::new(outcome, Some(lease.key.clone()));
    let ttl_ms = ms(lease.ttl.length());
    let span = Span { held_ms: ms(lease.held), left_ms: ttl_ms };
    let (id, who) = (session.id().clone(), session.who().clone());
    answer.holder = Some(HolderAnswer::new(id, who, lease.mode, span, ms(wall())));
    answer.fence = Some(lease.fence);
    answer.ttl_ms = Some(ttl_ms);
    answer.already_held = lease.already_held;
    answer
}

/// Leases that were granted together, as the answer about the key that was asked for first.
pub fn granted(session: &Session, first: &Key, leases: &[Lease]) -> LockAnswer {
    let Some(named) = leases.iter().find(|lease| lease.key == *first).or(leases.first()) else {
        return LockAnswer::new(Outcome::Granted, Some(first.clone()));
    };
    let mut answer = lease(Outcome::Granted, session, named);
    if leases.len() > 1 {
        answer.keys = leases.iter().map(|l| KeyFence { key: l.key.clone(), fence: l.fence }).collect();
    }
    answer.hint = Some(Outcome::Granted.next().to_owned());
    answer
}

/// A lease that is over.
pub fn ended(outcome: Outcome, key: &Key, fence: Option<Fence>) -> LockAnswer {
    LockAnswer { fence, ..LockAnswer::new(outcome, Some(key.clone())) }
}

fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_may_work_later_is_unavailable_and_a_wrong_request_is_not() {
        let of = |kind| outcome(&Denied::Unavailable(Error::new(kind, "x")));
        assert_eq!(of(Kind::TooNew), Outcome::Unavailable);
        assert_eq!(of(Kind::Corrupt), Outcome::Unavailable);
        assert_eq!(of(Kind::Unsupported), Outcome::Invalid);
        assert_eq!(of(Kind::Unauthorized), Outcome::Unauthorized);
    }

    #[test]
    fn the_hint_of_the_store_is_better_than_that_of_the_table() {
        let error = Error::new(Kind::Full, "write").hint("Free some space.");
        let answer = refused(&Denied::Unavailable(error), None);
        assert_eq!(answer.hint.as_deref(), Some("Free some space."));
        assert_eq!(answer.message.as_deref(), Some("could not write"));
    }

    #[test]
    fn every_refusal_says_what_happened_and_what_to_do() {
        for denied in [Denied::NotHeld, Denied::Unauthorized, Denied::Lost("x".into())] {
            let answer = refused(&denied, None);
            assert!(answer.message.is_some_and(|message| !message.is_empty()));
            assert!(answer.hint.is_some_and(|hint| !hint.is_empty()));
        }
    }
}
