//! A later grant of a key has a higher fence, and no two have the same.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{History, Op};

/// Grants out of order.
pub fn check(history: &History) -> Vec<Violation> {
    history.keys().into_iter().flat_map(|key| of_key(history, key)).collect()
}

fn of_key(history: &History, key: &str) -> Vec<Violation> {
    let violation = |seen| Violation { of: "fences", key: key.to_owned(), seen };
    let grants: Vec<(&Op, u64)> = history.about(key).filter_map(|op| Some((op, op.grant()?))).collect();
    let mut found = Vec::new();
    let mut owners: BTreeMap<u64, &str> = BTreeMap::new();
    for (op, fence) in &grants {
        let owner = *owners.entry(*fence).or_insert(&op.session);
        if owner != op.session {
            found.push(violation(format!("{owner} and {} were both granted {fence}", op.session)));
        }
    }
    let mut answered = grants.clone();
    answered.sort_by_key(|(op, _)| op.answered_us);
    let mut earlier = answered.into_iter().peekable();
    let mut highest: Option<(&Op, u64)> = None;
    // In the order of the questions: whatever was answered before one was asked is below it.
    for (op, fence) in grants {
        while let Some(done) = earlier.next_if(|(done, _)| done.answered_us < op.asked_us) {
            highest = highest.filter(|(_, most)| *most >= done.1).or(Some(done));
        }
        // A session that asks again for what it holds gets the same.
        let again = |before: &Op, most| before.session == op.session && most == fence;
        if let Some((before, most)) = highest
            && fence <= most
            && !again(before, most)
        {
            found.push(violation(format!(
                "{} was granted {fence} after {} had been granted {most}",
                op.session, before.session
            )));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    #[test]
    fn grants_that_overlap_may_be_in_any_order() {
        assert_eq!(check(&history([granted("a", 0.0, 1.0, 2), granted("b", 0.5, 0.6, 1)])), []);
    }

    #[test]
    fn a_lower_fence_after_a_higher_one_is_found() {
        let found = check(&history([granted("a", 0.0, 0.1, 9), granted("b", 5.0, 5.1, 8)]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn one_fence_for_two_is_found_also_if_they_overlap() {
        let found = check(&history([granted("a", 0.0, 1.0, 9), granted("b", 0.5, 0.9, 9)]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn asking_again_for_what_one_holds_gives_the_same_fence() {
        assert_eq!(check(&history([granted("a", 0.0, 0.1, 9), granted("a", 0.5, 0.6, 9)])), []);
    }
}
