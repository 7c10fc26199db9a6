//! Lengths of time, as people write and read them.

use std::time::Duration;

use bell_core::lock::Ttl;
use bell_core::work::Wall;
use bell_why::words;

use crate::answer::Refusal;

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 24 * HOUR_S;

/// The longest wait that can be asked for. Who wants more leaves the limit out.
const MAX_WAIT: Duration = Duration::from_secs(7 * DAY_S);
const _: () = assert!(MAX_WAIT.as_secs() == Ttl::MAX.length().as_secs());

/// A wait without limit: longer than any process lives, and still no sum with it overflows.
pub(crate) const WITHOUT_LIMIT: Duration = Duration::from_secs(100 * 365 * DAY_S);

/// Reads a ttl; `default` if none is given.
pub(crate) fn ttl(given: Option<&str>, default: Ttl) -> Result<Ttl, Refusal> {
    match given {
        None => Ok(default),
        Some(text) => read(text).and_then(|length| Ttl::new(length).ok()).ok_or_else(|| {
            Refusal::invalid(
                format!("could not use {text:?} as a ttl: it must be between 1 s and 7 days"),
                "Write a ttl like 30s, 10m, 2h or 1500ms; a plain number is seconds.",
            )
        }),
    }
}

/// Reads how long to wait for something; `default` if it is not given. `option` names it in a refusal.
pub(crate) fn wait(given: Option<&str>, option: &str, default: Duration) -> Result<Duration, Refusal> {
    match given {
        None => Ok(default),
        Some(text) => read(text).filter(|length| *length <= MAX_WAIT).ok_or_else(|| {
            Refusal::invalid(
                format!("could not use {text:?} for {option}: it must be between 0 s and 7 days"),
                "Write a time like 30s, 10m, 2h or 1500ms; a plain number is seconds.",
            )
        }),
    }
}

/// Reads a moment: a length of time before `now`, or a point of the calendar. `option` names it in a refusal.
pub(crate) fn moment(given: &str, option: &str, now: Wall) -> Result<Wall, Refusal> {
    if let Some(length) = read(given) {
        return Ok(Wall(now.0.saturating_sub(ms(length))));
    }
    given.trim().parse().map(words::wall).map_err(|_| {
        Refusal::invalid(
            format!("could not use {given:?} for {option}: it is no length of time and no moment"),
            "Write 30s, 10m, 2h or 7d before now, or a moment with its zone: 2026-11-16T10:00Z.",
        )
    })
}

/// A number with a unit; without one it is seconds.
fn read(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_s = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => HOUR_S as f64,
        "d" => DAY_S as f64,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit_s).ok()
}

/// A length of time for people: its two largest units.
pub(crate) fn words(length: Duration) -> String {
    let s = length.as_secs();
    if s == 0 {
        return format!("{}ms", length.as_millis());
    }
    let parts = [(s / DAY_S, "d"), (s % DAY_S / HOUR_S, "h"), (s % HOUR_S / 60, "m"), (s % 60, "s")];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(0);
    let shown = parts.iter().skip(first).take(2).filter(|(count, _)| *count > 0);
    shown.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

/// Milliseconds, as answers give them.
pub(crate) fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_unit() {
        let cases = [("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("1500ms", 1_500), ("90", 90_000)];
        for (text, expected_ms) in cases {
            assert_eq!(read(text), Some(Duration::from_millis(expected_ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "s", "-1", "-1s", "nan", "NaN", "inf", "1e400", "10 parsecs", "1s2", "0x10"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_ttl_has_bounds() {
        for text in ["0", "999ms", "8d", "604801"] {
            assert!(ttl(Some(text), Ttl::DEFAULT).is_err(), "{text}");
        }
        assert_eq!(ttl(Some("7d"), Ttl::DEFAULT).ok(), Some(Ttl::MAX));
        assert_eq!(ttl(None, Ttl::MIN).ok(), Some(Ttl::MIN));
    }

    #[test]
    fn a_wait_may_be_zero_but_not_endless() {
        assert_eq!(wait(Some("0"), "--wait", WITHOUT_LIMIT).ok(), Some(Duration::ZERO));
        assert!(wait(Some("8d"), "--wait", WITHOUT_LIMIT).is_err());
    }

    #[test]
    fn a_moment_is_so_long_ago_or_a_point_of_the_calendar() {
        let now = Wall(1_763_254_778_000);
        let read = |text| moment(text, "--since", now).ok();
        assert_eq!(read("10m"), Some(Wall(now.0 - 600_000)));
        assert_eq!(read("2025-11-16T00:59:38Z"), Some(now));
        assert_eq!(read("2025-11-16T01:59:38+01:00"), Some(now));
        for text in ["yesterday", "2025-11-16", "-5m", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn two_units_are_enough_for_people() {
        let cases =
            [(800, "800ms"), (12_000, "12s"), (61_000, "1m 1s"), (1_800_000, "30m"), (93_784_000, "1d 2h")];
        for (ms, expected) in cases {
            assert_eq!(words(Duration::from_millis(ms)), expected);
        }
    }
}
