//! What was given back is free, and goes to whoever waits.

use super::Violation;
use crate::history::{Answer, Ask, History, Op};

/// A waiter may be left alone for this long with the key free, although others are served meanwhile. Less than the ttl of
/// a lease whose release was lost, or that would hide it.
pub const WAITER_LIMIT_US: u64 = 6_000_000;

/// Releases that were lost.
pub fn check(history: &History) -> Vec<Violation> {
    history.keys().into_iter().flat_map(|key| of_key(history, key)).collect()
}

fn of_key(history: &History, key: &str) -> Vec<Violation> {
    let released = history.about(key).filter_map(|op| match (op.ask, op.answer) {
        (Ask::Release { fence }, Answer::Done) => Some((op, fence)),
        _ => None,
    });
    released
        .filter_map(|(op, fence)| still_held(history, op, fence).or_else(|| forgotten(history, op)))
        .collect()
}

/// Somebody was told that it is held by the lease which had been given back.
fn still_held(history: &History, release: &Op, fence: u64) -> Option<Violation> {
    let mut later = history.about(&release.key).filter(|op| op.asked_us > release.answered_us);
    let told = later.find(|op| op.answer == Answer::Busy { holder: Some(fence) })?;
    Some(violation(
        release,
        format!("{} was refused because of {fence}, which had been given back", told.session),
    ))
}

/// Somebody waited, and nobody got it while others were served.
fn forgotten(history: &History, release: &Op) -> Option<Violation> {
    let (from, to) = (release.answered_us, release.answered_us + WAITER_LIMIT_US);
    let disturbed = history.fault.from_us <= to && from <= history.fault.to_us;
    let waits = |op: &&Op| {
        matches!(op.ask, Ask::Acquire { wait_ms, .. } if wait_ms > 0)
            && op.asked_us < release.asked_us
            && op.answered_us > to
            // One that went away waits for nothing.
            && history.gone_us.get(&op.session).is_none_or(|gone| *gone > to)
    };
    let waiter = history.about(&release.key).find(waits)?;
    // Whoever got no answer may have got it.
    let mut got =
        history.about(&release.key).filter(|op| matches!(op.ask, Ask::Acquire { .. })).filter(|op| {
            let is_now = op.answered_us >= release.asked_us && op.asked_us <= to;
            is_now && (op.answer == Answer::Unknown || (op.grant().is_some() && op.answered_us <= to))
        });
    let half = from + WAITER_LIMIT_US / 2;
    let served = history.ops.iter().filter(|op| op.hold().is_some());
    let served = served.filter(|op| op.asked_us > half && op.answered_us < to).count();
    (!disturbed && got.next().is_none() && served >= 2).then(|| {
        let seen = format!("{} waited while it was free, and others were served", waiter.session);
        violation(release, seen)
    })
}

fn violation(release: &Op, seen: String) -> Violation {
    Violation { of: "release", key: release.key.clone(), seen }
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn waiting(session: &str, from: f64, to: f64, answer: Answer) -> Op {
        op(session, from, to, Ask::Acquire { ttl_ms: 8_000, wait_ms: 20_000 }, answer)
    }

    /// Somebody on another key is served all the time.
    fn others() -> impl Iterator<Item = Op> {
        (0..20).map(|second| Op {
            key: "other".into(),
            ..granted("z", f64::from(second), f64::from(second) + 0.5, 1)
        })
    }

    #[test]
    fn being_refused_because_of_a_lease_that_was_given_back_is_found() {
        let ops = [granted("a", 0.0, 0.1, 1), released("a", 0.2, 0.3, 1), busy("b", 0.4, 0.5, 1)];
        assert_eq!(check(&history(ops)).len(), 1);
        let overlapping = [granted("a", 0.0, 0.1, 1), released("a", 0.2, 0.5, 1), busy("b", 0.4, 0.6, 1)];
        assert_eq!(check(&history(overlapping)), []);
    }

    #[test]
    fn a_waiter_that_is_left_alone_is_found() {
        let ops = [
            granted("a", 0.0, 0.1, 1),
            waiting("b", 0.2, 15.0, Answer::TimedOut),
            released("a", 0.5, 0.6, 1),
        ];
        assert_eq!(check(&history(ops.into_iter().chain(others()))).len(), 1);
    }

    #[test]
    fn a_waiter_that_gets_it_or_stands_behind_one_who_does_is_not() {
        let ops = [
            granted("a", 0.0, 0.1, 1),
            waiting("b", 0.2, 15.0, Answer::TimedOut),
            waiting("c", 0.1, 0.7, Answer::Granted { fence: 2, deadline_us: 7 * SECOND }),
            released("a", 0.5, 0.6, 1),
        ];
        assert_eq!(check(&history(ops.into_iter().chain(others()))), []);
    }

    #[test]
    fn nothing_is_expected_of_a_store_that_serves_nobody_or_while_something_is_broken() {
        let ops = || {
            [granted("a", 0.0, 0.1, 1), waiting("b", 0.2, 15.0, Answer::TimedOut), released("a", 0.5, 0.6, 1)]
        };
        assert_eq!(check(&history(ops())), []);
        let mut broken = history(ops().into_iter().chain(others()));
        (broken.fault.from_us, broken.fault.to_us) = (2 * SECOND, 4 * SECOND);
        assert_eq!(check(&broken), []);
    }
}
