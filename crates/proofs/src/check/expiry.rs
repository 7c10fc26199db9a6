//! Nobody is granted a key before the lease on it can have run out: its ttl after the request that gave or renewed it
//! left, unless its holder gave it up.

use super::{TOLERANCE_US, Violation};
use crate::history::{History, Hold, Op};

/// Grants that came too early.
pub fn check(history: &History) -> Vec<Violation> {
    history.keys().into_iter().flat_map(|key| of_key(history, key)).collect()
}

fn of_key(history: &History, key: &str) -> Vec<Violation> {
    let holds: Vec<(&Op, Hold)> = history.about(key).filter_map(|op| Some((op, op.hold()?))).collect();
    let grants: Vec<(&Op, u64)> = history.about(key).filter_map(|op| Some((op, op.grant()?))).collect();
    let mut found = Vec::new();
    for (holder, hold) in holds {
        let lasts_us = (holder.asked_us + hold.ttl_us).saturating_sub(TOLERANCE_US);
        let ends_us = lasts_us.min(history.may_end_us(&holder.session, key, hold.fence));
        // A higher fence was granted after every renewal of a lower one that succeeded.
        let early = grants.iter().find(|(next, fence)| {
            *fence > hold.fence && next.answered_us < ends_us && next.session != holder.session
        });
        if let Some((next, fence)) = early {
            let early_ms = (ends_us - next.answered_us) / 1_000;
            found.push(Violation {
                of: "expiry",
                key: key.to_owned(),
                seen: format!(
                    "{} was granted {fence} at least {early_ms} ms before the lease {} of {} could have ended",
                    next.session, hold.fence, holder.session
                ),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::Answer;

    #[test]
    fn a_grant_after_the_ttl_or_after_a_release_is_in_order() {
        assert_eq!(check(&history([granted("a", 0.0, 0.1, 1), granted("b", 1.0, 2.1, 2)])), []);
        let given_back = [granted("a", 0.0, 0.1, 1), released("a", 0.2, 0.3, 1), granted("b", 0.2, 0.4, 2)];
        assert_eq!(check(&history(given_back)), []);
    }

    #[test]
    fn a_grant_before_the_ttl_is_found() {
        assert_eq!(check(&history([granted("a", 0.0, 0.1, 1), granted("b", 0.9, 1.0, 2)])).len(), 1);
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let ops = [granted("a", 0.0, 0.1, 1), renewed("a", 1.0, 1.1, 1), granted("b", 2.0, 2.1, 2)];
        assert_eq!(check(&history(ops)).len(), 1);
    }

    #[test]
    fn a_release_that_got_no_answer_may_have_happened_and_one_that_was_refused_has_not() {
        let with = |answer| {
            check(&history([
                granted("a", 0.0, 0.1, 1),
                release("a", 0.2, 0.5, 1, answer),
                granted("b", 0.5, 0.6, 2),
            ]))
        };
        assert_eq!(with(Answer::Unknown), []);
        assert_eq!(with(Answer::Refused).len(), 1);
    }

    #[test]
    fn the_lease_of_a_process_that_went_may_end_at_once() {
        let mut history = history([granted("a", 0.0, 0.1, 1), granted("b", 0.5, 0.6, 2)]);
        history.gone_us.insert("a".into(), SECOND / 2);
        assert_eq!(check(&history), []);
    }
}
