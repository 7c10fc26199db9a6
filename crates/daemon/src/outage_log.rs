//! The log of one loop that fails again and again while a store is away: its first failure, one a minute, and its end.

use std::fmt::Display;
use std::time::Duration;

use bell_store::clock::boottime;

/// Between two lines of one outage. A loop tries several times a second, for as long as the outage lasts.
const EVERY: Duration = Duration::from_secs(60);

/// What one loop has failed to do.
pub(crate) struct OutageLog {
    doing: &'static str,
    /// When the last line was written, and how many failures came after it.
    last: Option<(Duration, u32)>,
}

impl OutageLog {
    /// `doing` reads after "could not".
    pub(crate) const fn new(doing: &'static str) -> Self {
        Self { doing, last: None }
    }

    /// It failed.
    pub(crate) fn failed(&mut self, error: &impl Display) {
        if let Some(more) = self.count(boottime()) {
            tracing::warn!(%error, failures_since = more, "could not {}", self.doing);
        }
    }

    /// It worked.
    pub(crate) fn worked(&mut self) {
        if self.last.take().is_some() {
            tracing::info!("can {} again", self.doing);
        }
    }

    /// Whether this failure is worth a line, and how many were not since the one before.
    fn count(&mut self, now: Duration) -> Option<u32> {
        match &mut self.last {
            Some((at, more)) if now.saturating_sub(*at) < EVERY => {
                *more += 1;
                None
            }
            last => {
                let more = last.map_or(0, |(_, more)| more);
                *last = Some((now, 0));
                Some(more)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_a_line_when_it_begins_and_one_a_minute() {
        let mut log = OutageLog::new("ask for work");
        let lines: Vec<u32> = (0..130).filter_map(|s| log.count(Duration::from_secs(1_000 + s))).collect();
        assert_eq!(lines, [0, 59, 59]);
        log.worked();
        assert_eq!(log.count(Duration::from_secs(1_131)), Some(0), "the next outage is another one");
    }
}
