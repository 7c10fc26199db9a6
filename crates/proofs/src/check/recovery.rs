//! Once the fault is over, every key can be had again.

use super::{Expected, Violation};
use crate::history::History;

/// Keys that could not be had.
pub fn check(history: &History, expected: Expected<'_>) -> Vec<Violation> {
    let missing = expected.probed.iter().filter(|key| {
        let mut asked = history.about(key).filter(|op| op.client == expected.probe);
        !asked.any(|op| op.grant().is_some())
    });
    missing
        .map(|key| Violation {
            of: "recovery",
            key: (*key).to_owned(),
            seen: "nobody could have it once the fault was over".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    #[test]
    fn a_key_that_the_probe_was_granted_is_in_order_and_any_other_is_found() {
        let probe = u32::from(b'p');
        let expected = Expected { probe, probed: &[KEY, "other"] };
        let found = check(&history([granted("p", 9.0, 9.1, 7), granted("a", 9.2, 9.3, 8)]), expected);
        assert_eq!(found.iter().map(|violation| violation.key.as_str()).collect::<Vec<_>>(), ["other"]);
    }
}
