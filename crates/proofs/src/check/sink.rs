//! The guard never takes a lower fence after a higher one, in the order of its own record.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Accepted, History};

/// Writes that should have been refused.
pub fn check(history: &History) -> Vec<Violation> {
    let mut highest: BTreeMap<&str, &Accepted> = BTreeMap::new();
    let mut found = Vec::new();
    for write in &history.sink {
        match highest.get(write.key.as_str()) {
            Some(seen) if write.fence < seen.fence => found.push(Violation {
                of: "sink",
                key: write.key.clone(),
                seen: format!(
                    "a write of client {} with {} was taken after one of client {} with {}",
                    write.client, write.fence, seen.client, seen.fence
                ),
            }),
            _ => drop(highest.insert(&write.key, write)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(fences: &[(&str, u64)]) -> History {
        let sink =
            fences.iter().map(|(key, fence)| Accepted { key: (*key).into(), fence: *fence, client: 0 });
        History { sink: sink.collect(), ..History::default() }
    }

    #[test]
    fn equal_and_rising_fences_are_taken_and_each_key_has_its_own() {
        assert_eq!(check(&taken(&[("a", 5), ("a", 5), ("b", 1), ("a", 6), ("b", 2)])), []);
    }

    #[test]
    fn a_lower_fence_after_a_higher_one_is_found() {
        assert_eq!(check(&taken(&[("a", 5), ("a", 6), ("a", 5), ("a", 6)])).len(), 1);
    }
}
