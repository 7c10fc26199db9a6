//! Which name somebody may have meant.

/// Names longer than this are compared no further: nobody mistypes that much, and the work stays bounded.
const CHARS_MAX: usize = 64;

/// The candidate nearest to `given`, if it is near enough to be worth naming: at most a third of its
/// characters differ.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.to_lowercase().replace('-', "_").chars().take(CHARS_MAX).collect();
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| {
            let other: Vec<char> = candidate.to_lowercase().replace('-', "_").chars().collect();
            (edits(&given, &other), candidate)
        })
        .min_by_key(|(distance, _)| *distance)?;
    let allowed = given.len().max(best.chars().count()).div_ceil(3);
    (distance <= allowed && distance < given.len()).then_some(best)
}

/// How many characters to add, leave out, replace or swap with a neighbour.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(from != to);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_swapped_neighbours_as_one() {
        let count = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(count("shcedule", "schedule"), 1);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("kitten", "sitting"), 3);
        assert_eq!(count("same", "same"), 0);
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_name_and_another_word_finds_none() {
        let names = ["schedule", "timezone", "timeout", "scale"];
        assert_eq!(nearest("shedule", names), Some("schedule"));
        assert_eq!(nearest("timezome", names), Some("timezone"));
        assert_eq!(nearest("Scale", names), Some("scale"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("x", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
