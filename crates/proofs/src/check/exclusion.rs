//! No two holders rely on a key at the same time, each judged by its own deadline.

use super::Violation;
use crate::history::History;

/// A span in which a session acts as the holder.
struct Belief<'a> {
    session: &'a str,
    fence: u64,
    from_us: u64,
    to_us: u64,
}

/// Holders at the same time.
pub fn check(history: &History) -> Vec<Violation> {
    history.keys().into_iter().flat_map(|key| of_key(history, key)).collect()
}

fn of_key(history: &History, key: &str) -> Vec<Violation> {
    let mut beliefs: Vec<Belief<'_>> = history
        .about(key)
        .filter_map(|op| {
            let hold = op.hold()?;
            let to_us = hold.deadline_us.min(history.may_end_us(&op.session, key, hold.fence));
            Some(Belief { session: &op.session, fence: hold.fence, from_us: op.answered_us, to_us })
        })
        .filter(|belief| belief.from_us < belief.to_us)
        .collect();
    beliefs.sort_by_key(|belief| belief.from_us);
    let mut found = Vec::new();
    for (index, later) in beliefs.iter().enumerate() {
        let rival = beliefs[..index]
            .iter()
            .find(|earlier| earlier.session != later.session && earlier.to_us > later.from_us);
        if let Some(rival) = rival {
            let both_ms = (rival.to_us.min(later.to_us) - later.from_us) / 1_000;
            found.push(Violation {
                of: "exclusion",
                key: key.to_owned(),
                seen: format!(
                    "{} with {} and {} with {} both relied on it for {both_ms} ms",
                    rival.session, rival.fence, later.session, later.fence
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

    #[test]
    fn holders_after_each_other_are_in_order() {
        assert_eq!(check(&history([granted("a", 0.0, 0.1, 1), granted("b", 1.0, 1.6, 2)])), []);
        let given_back = [granted("a", 0.0, 0.1, 1), released("a", 0.2, 0.9, 1), granted("b", 0.2, 0.3, 2)];
        assert_eq!(check(&history(given_back)), []);
    }

    #[test]
    fn holders_at_the_same_time_are_found() {
        assert_eq!(check(&history([granted("a", 0.0, 0.1, 1), granted("b", 0.1, 0.2, 2)])).len(), 1);
    }

    #[test]
    fn a_grant_that_came_after_its_deadline_makes_nobody_a_holder() {
        assert_eq!(check(&history([granted("a", 0.0, 1.9, 1), granted("b", 1.7, 1.8, 2)])), []);
    }

    #[test]
    fn a_renewal_prolongs_it() {
        let ops = [granted("a", 0.0, 0.1, 1), renewed("a", 1.0, 1.1, 1), granted("b", 2.0, 2.1, 2)];
        assert_eq!(check(&history(ops)).len(), 1);
    }
}
