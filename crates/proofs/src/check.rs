//! Whether a history keeps the contract. One file for each thing that must hold; all are pure functions.
//!
//! | module | what must hold |
//! | --- | --- |
//! | [`linear`] | the answers about a key are those of one mutex with fences, in some order that the times allow |
//! | [`fences`] | a later grant of a key has a higher fence |
//! | [`sink`] | the guard never takes a lower fence after a higher one |
//! | [`expiry`] | nobody is granted a key before the lease on it can have run out |
//! | [`release`] | what was given back is free, and goes to whoever waits |
//! | [`exclusion`] | no two holders rely on a key at the same time |
//! | [`recovery`] | once the fault is over, every key can be had again |

pub mod exclusion;
pub mod expiry;
pub mod fences;
pub mod linear;
pub mod recovery;
pub mod release;
pub mod sink;

use std::fmt;

use bell_store::txn::MAX_LAG;

use crate::history::History;

/// How much earlier than its ttl after the request a lease may end at the store: a decision may be this old when it is
/// committed, and the store's clock differ by this much from the machine's before that is noticed. Holders keep more in reserve.
pub(crate) const TOLERANCE_US: u64 = MAX_LAG.as_micros() as u64 + 60_000;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which invariant: the name of its module.
    pub of: &'static str,
    /// On which key.
    pub key: String,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", self.of, self.key, self.seen)
    }
}

/// What is known of the keys that clients asked for.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Who asked for every key once the fault was over.
    pub probe: u32,
    /// The keys it asked for.
    pub probed: &'a [&'a str],
}

/// Everything that is wrong with a history.
pub fn all(history: &History, expected: Expected<'_>) -> Vec<Violation> {
    let mut found = safety(history);
    found.extend(release::check(history));
    found.extend(recovery::check(history, expected));
    found
}

/// What is wrong with it apart from how soon, or whether, keys could be had.
pub fn safety(history: &History) -> Vec<Violation> {
    [fences::check, sink::check, expiry::check, exclusion::check, linear::check]
        .iter()
        .flat_map(|check| check(history))
        .collect()
}

/// Histories made by hand, for the tests of every invariant.
#[cfg(test)]
pub(crate) mod made {
    use crate::history::{Answer, Ask, History, Op};

    pub(crate) const KEY: &str = "k";
    pub(crate) const SECOND: u64 = 1_000_000;

    /// A question by this session, asked and answered at these seconds.
    pub(crate) fn op(session: &str, from: f64, to: f64, ask: Ask, answer: Answer) -> Op {
        let us = |seconds: f64| if seconds.is_finite() { (seconds * 1e6) as u64 } else { u64::MAX };
        let client = u32::from(session.as_bytes()[0]);
        Op {
            client,
            session: session.into(),
            key: KEY.into(),
            asked_us: us(from),
            answered_us: us(to),
            ask,
            answer,
        }
    }

    pub(crate) fn acquire(session: &str, from: f64, to: f64, answer: Answer) -> Op {
        op(session, from, to, Ask::Acquire { ttl_ms: 2_000, wait_ms: 0 }, answer)
    }

    /// A grant of two seconds, relied on for one and a half from when it was asked for.
    pub(crate) fn granted(session: &str, from: f64, to: f64, fence: u64) -> Op {
        let deadline_us = ((from + 1.5) * 1e6) as u64;
        acquire(session, from, to, Answer::Granted { fence, deadline_us })
    }

    pub(crate) fn renewed(session: &str, from: f64, to: f64, fence: u64) -> Op {
        let deadline_us = ((from + 1.5) * 1e6) as u64;
        op(session, from, to, Ask::Renew { fence, ttl_ms: 2_000 }, Answer::Renewed { deadline_us })
    }

    pub(crate) fn busy(session: &str, from: f64, to: f64, holder: u64) -> Op {
        acquire(session, from, to, Answer::Busy { holder: Some(holder) })
    }

    pub(crate) fn release(session: &str, from: f64, to: f64, fence: u64, answer: Answer) -> Op {
        op(session, from, to, Ask::Release { fence }, answer)
    }

    pub(crate) fn released(session: &str, from: f64, to: f64, fence: u64) -> Op {
        release(session, from, to, fence, Answer::Done)
    }

    pub(crate) fn history(ops: impl IntoIterator<Item = Op>) -> History {
        let mut ops: Vec<Op> = ops.into_iter().collect();
        ops.sort_by_key(|op| op.asked_us);
        History { ops, ..History::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::made::*;
    use super::*;

    #[test]
    fn a_history_as_it_should_be_breaks_nothing() {
        let history = history([
            granted("a", 0.0, 0.1, 1),
            busy("b", 0.2, 0.3, 1),
            renewed("a", 0.6, 0.7, 1),
            released("a", 1.0, 1.1, 1),
            granted("b", 1.05, 1.2, 2),
            granted("c", 3.0, 3.1, 3),
        ]);
        assert_eq!(safety(&history), []);
        assert_eq!(release::check(&history), []);
    }
}
