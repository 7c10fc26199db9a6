//! What happened, from history: each row is counted once.
//!
//! Rows are named by the wall clock of whoever wrote them, and appear a moment later than that. So the last two minutes
//! are looked at again each time, and what was counted of them is remembered. A node whose clock is further behind than
//! that is not counted; nor is what happened before the daemon came.

use std::collections::BTreeSet;

use bell_coord::work::wall_now;
use bell_coord::{Coord, Denied};
use bell_core::work::Wall;
use bell_core::work::row::Event;

/// How far behind the latest row another may appear.
const LATE_MS: u64 = 120_000;

/// Rows read at once.
const PAGE: usize = 500;

/// What happened, and when.
pub(crate) type News = Vec<(Wall, Event)>;

/// What of history has been counted.
#[derive(Default)]
pub(crate) struct Past {
    /// No earlier row is looked at.
    floor: Wall,
    /// The rows from there on that have been counted.
    seen: BTreeSet<String>,
}

impl Past {
    /// Counts from now on.
    pub(crate) async fn begin(&mut self, coord: &Coord) -> Result<(), Denied> {
        self.floor = Wall(wall_now().0.saturating_sub(LATE_MS));
        self.news(coord).await?;
        Ok(())
    }

    /// What has not been counted yet. Dropped half-way, nothing has been.
    pub(crate) async fn news(&mut self, coord: &Coord) -> Result<News, Denied> {
        let mut news = News::new();
        let mut from = None;
        loop {
            let page = coord.history(from.as_deref(), PAGE).await?;
            let recent = page.rows.len();
            let rows = page.rows.into_iter().take_while(|(at, _)| *at >= self.floor);
            let before = news.len();
            news.extend(rows);
            from = page.next.filter(|_| news.len() - before == recent);
            if from.is_none() {
                break;
            }
        }
        Ok(self.count(news, wall_now()))
    }

    fn count(&mut self, rows: News, now: Wall) -> News {
        // A clock that was ahead for a while must not keep later rows from being counted.
        let latest = rows.first().map_or(now, |(at, _)| *at).min(now);
        let floor = Wall(latest.0.saturating_sub(LATE_MS)).max(self.floor);
        let mut seen = BTreeSet::new();
        let mut news = News::new();
        for (at, event) in rows {
            let name = name(at, &event);
            if !self.seen.contains(&name) {
                news.push((at, event));
            }
            if at >= floor {
                seen.insert(name);
            }
        }
        *self = Self { floor, seen };
        news
    }
}

/// Nothing happens twice to one thing in one millisecond.
fn name(at: Wall, event: &Event) -> String {
    format!("{} {}", at.0, serde_json::to_string(event).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use bell_core::work::row::What;

    use super::*;

    fn row(at: u64) -> (Wall, Event) {
        (Wall(at), Event { agent: None, job: None, what: What::Replayed })
    }

    #[test]
    fn a_row_is_counted_once_also_if_it_appears_late() {
        let mut past = Past::default();
        let now = Wall(1_000_000);
        assert_eq!(past.count(vec![row(999_000), row(990_000)], now).len(), 2);
        let late = past.count(vec![row(999_500), row(999_000), row(995_000), row(990_000)], now);
        assert_eq!(late, [row(999_500), row(995_000)]);
        assert!(past.count(vec![row(999_500), row(999_000), row(995_000), row(990_000)], now).is_empty());
    }

    #[test]
    fn what_can_not_come_any_more_is_forgotten() {
        let mut past = Past::default();
        past.count(vec![row(1_000)], Wall(1_000));
        past.count(vec![row(900_000), row(1_000)], Wall(900_000));
        assert_eq!(past.seen.len(), 1);
        assert_eq!(past.floor, Wall(780_000));
    }

    #[test]
    fn a_row_from_a_clock_that_is_ahead_does_not_hide_those_that_follow() {
        let mut past = Past::default();
        past.count(vec![row(9_000_000)], Wall(1_000_000));
        let next = past.count(vec![row(9_000_000), row(1_000_500)], Wall(1_001_000));
        assert_eq!(next, [row(1_000_500)]);
    }
}
