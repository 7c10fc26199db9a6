//! Moments, lengths and triggers as people read them.

use std::fmt::Display;
use std::time::Duration;

use bell_core::work::Wall;
use bell_core::work::job::{Fate, Trigger};
use jiff::Timestamp;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// Names that are written out before the rest is counted.
const NAMED: usize = 5;

/// A wall clock's moment on the calendar. None if the calendar does not go so far.
pub fn timestamp(at: Wall) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

/// A moment of the calendar on a wall clock; before 1970 is 1970.
pub fn wall(at: Timestamp) -> Wall {
    Wall(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

/// A moment, to the second, in UTC.
pub fn when(at: Wall) -> String {
    let whole = Wall(at.0 / 1_000 * 1_000);
    timestamp(whole).map_or_else(|| format!("{} ms after 1970", at.0), |at| at.to_string())
}

/// A moment, and how long that was before or is after `now`.
pub fn told(at: Wall, now: Wall) -> String {
    if at > now {
        format!("{} (in {})", when(at), between(now, at))
    } else {
        format!("{} ({} ago)", when(at), between(at, now))
    }
}

/// How long it is from one moment to a later one; nothing if it is not later.
pub fn between(from: Wall, to: Wall) -> String {
    length(Duration::from_millis(to.0.saturating_sub(from.0)))
}

/// A length of time: its two largest units.
pub fn length(length: Duration) -> String {
    let s = length.as_secs();
    if s == 0 {
        return format!("{} ms", length.as_millis());
    }
    let parts =
        [(s / DAY_S, "d"), (s % DAY_S / HOUR_S, "h"), (s % HOUR_S / MINUTE_S, "min"), (s % MINUTE_S, "s")];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(0);
    let shown = parts.iter().skip(first).take(2).filter(|(count, _)| *count > 0);
    shown.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

/// Why there is a job.
pub fn trigger(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Cron { nominal } => format!("its schedule, due at {}", when(*nominal)),
        Trigger::Webhook { source, delivery } => format!("the delivery {delivery} of {source}"),
        Trigger::Call { caller, depth: 1 } => format!("a call by {caller}"),
        Trigger::Call { caller, depth } => format!("a call by {caller}, the {depth}th in a row"),
        Trigger::Manual { by: Some(by) } => format!("by hand, by {by}"),
        Trigger::Manual { by: None } => "by hand".to_owned(),
    }
}

/// What became of a job.
pub fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Ended { end } => end.to_string(),
        Fate::Dropped => "dropped: the queue was full, and it was the oldest".to_owned(),
        Fate::Cleared => {
            "cleared: the fleet was stopped, or its queue cleared, before its turn came".to_owned()
        }
        Fate::Cancelled => "cancelled: somebody took it out of the queue".to_owned(),
    }
}

/// Names, the first few written out.
pub fn names<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A count with its noun.
pub fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_utc_with_its_distance() {
        let at = Wall(1_763_254_778_123);
        assert_eq!(told(at, Wall(at.0 + 90_000)), "2025-11-16T00:59:38Z (1 min 30 s ago)");
        assert_eq!(told(at, Wall(at.0 - 61_000)), "2025-11-16T00:59:38Z (in 1 min 1 s)");
        assert_eq!(when(Wall(u64::MAX)), format!("{} ms after 1970", u64::MAX));
    }

    #[test]
    fn two_units_are_enough_for_people() {
        let cases = [(800, "800 ms"), (61_000, "1 min 1 s"), (1_800_000, "30 min"), (93_784_000, "1 d 2 h")];
        for (ms, expected) in cases {
            assert_eq!(length(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn many_names_are_counted() {
        assert_eq!(names(["a", "b"]), "a, b");
        assert_eq!(names(1..=8), "1, 2, 3, 4, 5 and 3 more");
        assert_eq!((count(1, "run"), count(2, "run")), ("1 run".to_owned(), "2 runs".to_owned()));
    }
}
