//! How long after it was signed a delivery counts: a copy that somebody kept can't be sent again later.

use std::time::Duration;

use bell_core::work::Wall;

use crate::refused::Refused;

/// For schemes that sign the time: Slack, Discord and Standard Webhooks all name five minutes.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);

/// Whether it was signed within the window around now: clocks differ in both directions.
pub(crate) fn check(sent: Wall, now: Wall, window: Duration) -> Result<(), Refused> {
    let apart = Duration::from_millis(sent.0.abs_diff(now.0));
    if apart > window { Err(Refused::Stale(window)) } else { Ok(()) }
}

/// As before, for a time in seconds as text.
pub(crate) fn check_seconds(sent: &str, now: Wall) -> Result<(), Refused> {
    let sent = sent.parse::<u64>().ok().and_then(|secs| secs.checked_mul(1_000));
    check(Wall(sent.ok_or(Refused::Stale(WINDOW))?), now, WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_either_way_count_and_no_more() {
        let now = Wall(1_000_000_000);
        for sent in ["1000000", "999700", "1000300"] {
            assert_eq!(check_seconds(sent, now), Ok(()), "{sent}");
        }
        for sent in ["999699", "1000301", "", "x", "-1", "18446744073709551615", "0"] {
            assert_eq!(check_seconds(sent, now), Err(Refused::Stale(WINDOW)), "{sent}");
        }
    }
}
