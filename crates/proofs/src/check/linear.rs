//! The answers about a key are those of one mutex with fences, asked one after the other in some order that the times
//! allow: a search in the manner of Wing and Gong, with Lowe's memory of what was tried.
//!
//! `model` says what the mutex answers. Here is the search: every definite answer is put in line once, between
//! its question and its answer. What got no answer may have happened at any time since; the model allows for it where it
//! would explain an answer, so it is not put in line itself, and costs no search.

mod model;

use std::collections::HashMap;

use super::Violation;
use crate::history::History;
use model::{Model, State};

/// Answers about one key. Beyond that a cell of the matrix was set up wrongly.
const MAX_STEPS: usize = 4_000;

/// Orders to try. A history that is in order needs few more than it has steps.
const MAX_TRIES: usize = 2_000_000;

/// Keys whose answers no mutex would give.
pub fn check(history: &History) -> Vec<Violation> {
    let found = history.keys().into_iter().filter_map(|key| {
        let seen = search(&Model::of(history, key)).err()?;
        Some(Violation { of: "linear", key: key.to_owned(), seen })
    });
    found.collect()
}

/// Steps that were put in line, and the lease then: what must be equal for two positions to have the same future, but
/// for the times.
type Place = (Vec<u64>, Option<u64>);

/// A position in the search.
struct Node {
    done: Vec<u64>,
    count: usize,
    state: State,
}

/// Finds an order, or says where every order ends.
fn search(model: &Model<'_>) -> Result<(), String> {
    let steps = model.steps();
    if steps.len() > MAX_STEPS {
        return Err(format!("gave up: {} answers are too many to check", steps.len()));
    }
    let mut tried: HashMap<Place, Vec<State>> = HashMap::new();
    let mut deepest = (0, String::new());
    let first = Node { done: vec![0; steps.len().div_ceil(64)], count: 0, state: State::default() };
    let mut open = vec![first];
    for _ in 0..MAX_TRIES {
        let Some(node) = open.pop() else { return Err(deepest.1) };
        if node.count == steps.len() {
            return Ok(());
        }
        let next = followers(model, &node);
        if next.is_empty() && node.count >= deepest.0 {
            deepest = (node.count, stuck(model, &node));
        }
        for follower in next {
            let known = tried.entry((follower.done.clone(), follower.state.fence())).or_default();
            if known.iter().any(|state| state.allows_all_of(&follower.state)) {
                continue;
            }
            known.push(follower.state.clone());
            open.push(follower);
        }
    }
    Err(format!("gave up after {MAX_TRIES} orders; the best of them ended thus: {}", deepest.1))
}

/// Where it can go on: with any step that was asked before all of the others were answered. The one that was answered
/// first is tried first, so it comes last.
fn followers(model: &Model<'_>, node: &Node) -> Vec<Node> {
    let mut next: Vec<(u64, Node)> = candidates(model, node)
        .filter_map(|index| {
            let step = &model.steps()[index];
            let state = model.after(&node.state, step)?;
            let mut done = node.done.clone();
            done[index / 64] |= 1 << (index % 64);
            Some((step.to_us, Node { done, count: node.count + 1, state }))
        })
        .collect();
    next.sort_by_key(|(answered_us, _)| std::cmp::Reverse(*answered_us));
    next.into_iter().map(|(_, node)| node).collect()
}

fn candidates<'a>(model: &'a Model<'_>, node: &'a Node) -> impl Iterator<Item = usize> + 'a {
    let steps = model.steps();
    let is_open = |index: &usize| node.done[index / 64] & (1 << (index % 64)) == 0;
    let start = node.done.iter().take_while(|word| **word == u64::MAX).count() * 64;
    let mut first_answer_us = u64::MAX;
    let mut found = Vec::new();
    // Sorted by question: behind the first that was asked too late all were.
    for index in (start..steps.len()).filter(is_open) {
        if steps[index].from_us > first_answer_us {
            break;
        }
        first_answer_us = first_answer_us.min(steps[index].to_us);
        found.push(index);
    }
    found.into_iter().filter(move |index| steps[*index].from_us <= first_answer_us)
}

/// Why it does not go on.
fn stuck(model: &Model<'_>, node: &Node) -> String {
    let next = candidates(model, node).min_by_key(|index| model.steps()[*index].to_us);
    let step = next.map_or_else(String::new, |index| model.steps()[index].to_string());
    format!("after {} answers with {}, no mutex would answer: {step}", node.count, node.state)
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::{Answer, Ask, Op};

    fn found(ops: impl IntoIterator<Item = Op>) -> usize {
        check(&history(ops)).len()
    }

    #[test]
    fn an_order_is_found_for_answers_that_overlap() {
        let waited = Ask::Acquire { ttl_ms: 2_000, wait_ms: 5_000 };
        assert_eq!(
            found([
                granted("a", 0.0, 0.9, 1),
                busy("b", 0.1, 0.2, 1),
                op("c", 0.1, 1.2, waited, Answer::Granted { fence: 2, deadline_us: 2_500_000 }),
                released("a", 1.0, 1.3, 1),
                busy("b", 1.1, 1.2, 2),
            ]),
            0
        );
    }

    #[test]
    fn two_grants_without_an_end_between_them_are_found() {
        assert_eq!(found([granted("a", 0.0, 0.1, 1), granted("b", 0.2, 0.3, 2)]), 1);
        assert_eq!(found([granted("a", 0.0, 0.1, 1), granted("b", 2.0, 2.1, 2)]), 0);
    }

    #[test]
    fn a_lower_fence_later_is_found() {
        assert_eq!(
            found([granted("a", 0.0, 0.1, 5), released("a", 0.2, 0.3, 5), granted("b", 0.4, 0.5, 4)]),
            1
        );
    }

    #[test]
    fn being_refused_because_of_nobody_is_found() {
        assert_eq!(found([granted("a", 0.0, 0.1, 1), released("a", 0.2, 0.3, 1), busy("b", 0.4, 0.5, 1)]), 1);
        assert_eq!(found([busy("b", 0.4, 0.5, 1)]), 1);
    }

    #[test]
    fn being_refused_because_of_a_request_without_an_answer_is_in_order_while_that_may_last() {
        let unknown = || acquire("a", 0.0, 0.1, Answer::Unknown);
        assert_eq!(found([unknown(), busy("b", 0.4, 0.5, 1)]), 0);
        assert_eq!(found([unknown(), busy("b", 60.0, 60.1, 1)]), 1);
        let refused = acquire("a", 0.0, 0.1, Answer::Refused);
        assert_eq!(found([refused, busy("b", 0.4, 0.5, 1)]), 1);
    }

    #[test]
    fn a_request_without_an_answer_may_have_got_what_its_session_is_told_of_later() {
        let ops =
            [acquire("a", 0.0, 0.1, Answer::Unknown), busy("b", 0.2, 0.3, 1), granted("a", 0.4, 0.5, 1)];
        assert_eq!(found(ops.clone()), 0);
        assert_eq!(found(ops.into_iter().skip(1)), 1);
    }

    #[test]
    fn a_waiter_that_was_stopped_may_have_had_a_lease_without_noticing() {
        let waited = |to, answer| op("a", 0.0, to, Ask::Acquire { ttl_ms: 2_000, wait_ms: 1_000 }, answer);
        let granted = Answer::Granted { fence: 3, deadline_us: 9 * SECOND };
        assert_eq!(found([waited(8.0, granted), busy("b", 1.0, 1.1, 2)]), 0);
        assert_eq!(found([waited(0.9, granted), busy("b", 1.0, 1.1, 2)]), 1);
    }

    #[test]
    fn a_release_without_an_answer_may_have_happened_and_a_refused_one_has_not() {
        let with = |answer| {
            found([granted("a", 0.0, 0.1, 1), release("a", 0.2, 0.3, 1, answer), granted("b", 0.4, 0.5, 2)])
        };
        assert_eq!((with(Answer::Unknown), with(Answer::Refused)), (0, 1));
    }

    #[test]
    fn a_renewal_after_somebody_else_was_granted_the_key_is_found() {
        let taken_over = || [granted("a", 0.0, 0.1, 1), granted("b", 2.0, 2.1, 2)];
        assert_eq!(found(taken_over().into_iter().chain([renewed("a", 2.2, 2.3, 1)])), 1);
        let over = op("a", 2.2, 2.3, Ask::Renew { fence: 1, ttl_ms: 2_000 }, Answer::Over);
        assert_eq!(found(taken_over().into_iter().chain([over])), 0);
    }

    #[test]
    fn being_told_that_a_live_lease_is_over_is_found() {
        let over = op("a", 0.5, 0.6, Ask::Renew { fence: 1, ttl_ms: 2_000 }, Answer::Over);
        assert_eq!(found([granted("a", 0.0, 0.1, 1), over]), 1);
    }

    #[test]
    fn a_late_release_does_not_free_a_successor() {
        let ops = [granted("a", 0.0, 0.1, 1), granted("b", 2.0, 2.1, 2), released("a", 2.2, 2.3, 1)];
        assert_eq!(found(ops.clone()), 0);
        assert_eq!(found(ops.into_iter().chain([granted("c", 2.4, 2.5, 3)])), 1);
    }

    #[test]
    fn the_end_of_a_session_frees_what_it_held() {
        let end = Op { key: String::new(), ..op("a", 0.2, 0.3, Ask::End, Answer::Done) };
        assert_eq!(found([granted("a", 0.0, 0.1, 1), end, granted("b", 0.4, 0.5, 2)]), 0);
    }

    #[test]
    fn many_overlapping_answers_are_checked_in_time() {
        let rounds = (0..150).flat_map(|round| {
            let (at, fence) = (f64::from(round), u64::from(round as u32) + 1);
            let busy = (0..5).map(move |who| busy(["b", "c", "d", "e", "f"][who], at + 0.1, at + 0.8, fence));
            [granted("a", at, at + 0.3, fence), released("a", at + 0.85, at + 0.9, fence)]
                .into_iter()
                .chain(busy)
        });
        assert_eq!(found(rounds), 0);
    }
}
