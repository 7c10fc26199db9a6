//! Asking the store: does it take commits, how long does it take, what does its clock show.

use std::sync::Arc;
use std::time::Duration;

use bell_store::clock::{boottime, wall};
use bell_store::info::Clock;
use bell_store::{Error, Kind, Name, Stamp, Store, Txn, Write};

use super::leftovers::leftovers;
use super::machine::machine;
use super::seen::{ClockSeen, Commits, Seen};

/// A scope that no user of a store has: the only record that a look writes.
const RECORD: &str = "@doctor/probe";

/// Round trips of each kind; the median of them is shown.
const ROUND_TRIPS: usize = 9;

/// The clock is watched at least this long.
const WATCH_CLOCK: Duration = Duration::from_millis(500);

/// Asks everything. What can't be asked is left out.
pub(super) async fn probe(store: &Arc<dyn Store>) -> Seen {
    let before = Reading::take(store).await;
    let (commits, commit_us) = match commit_often(store).await {
        Ok(us) => (Commits::Taken, Some(us)),
        Err(error) => (refused(&error), None),
    };
    let read_us = read_often(store).await.ok();
    let leftovers = leftovers(store).await.ok();
    if let Some(before) = &before {
        tokio::time::sleep(WATCH_CLOCK.saturating_sub(boottime().saturating_sub(before.arrived))).await;
    }
    let after = Reading::take(store).await;
    let clock = before.zip(after).map(|(before, after)| {
        let ahead_ms = (store.info().clock == Clock::Server).then(|| after.ahead_ms());
        ClockSeen { ahead_ms, ..after.since(&before) }
    });
    Seen { commits, read_us, commit_us, clock, leftovers, machine: machine(store.info()) }
}

async fn commit_often(store: &Arc<dyn Store>) -> Result<u64, Error> {
    let name = Name::from(RECORD);
    let txn = |write| Txn { writes: vec![(name.clone(), write)], ..Txn::default() };
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let began = boottime();
        store.commit(txn(Write::Put(b"written by bell doctor".to_vec(), Stamp::Keep))).await?;
        times.push(boottime().saturating_sub(began));
    }
    store.commit(txn(Write::Delete)).await?;
    Ok(median_us(times))
}

async fn read_often(store: &Arc<dyn Store>) -> Result<u64, Error> {
    let name = Name::from(RECORD);
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let began = boottime();
        store.read(std::slice::from_ref(&name)).await?;
        times.push(boottime().saturating_sub(began));
    }
    Ok(median_us(times))
}

fn median_us(mut times: Vec<Duration>) -> u64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    u64::try_from(median.as_micros()).unwrap_or(u64::MAX)
}

fn refused(error: &Error) -> Commits {
    let why = error.to_string();
    match error.kind() {
        Kind::Rewound => Commits::Rewound { why },
        _ => Commits::Refused { why, advice: error.advice().to_owned() },
    }
}

/// What the store's clock showed between two moments of this machine's.
struct Reading {
    sent: Duration,
    arrived: Duration,
    now_ms: i64,
    wall_ms: i64,
}

impl Reading {
    async fn take(store: &Arc<dyn Store>) -> Option<Self> {
        let sent = boottime();
        let now = store.now().await.ok()?;
        let arrived = boottime();
        Some(Self {
            sent,
            arrived,
            now_ms: i64::try_from(now.as_ms()).unwrap_or(i64::MAX),
            wall_ms: signed_ms(wall()),
        })
    }

    fn since(&self, before: &Self) -> ClockSeen {
        let (least, most) =
            (self.sent.saturating_sub(before.arrived), self.arrived.saturating_sub(before.sent));
        let went = self.now_ms - before.now_ms;
        let drift_ms = match (went - signed_ms(most), went - signed_ms(least)) {
            (above, _) if above > 0 => above,
            (_, below) if below < 0 => below,
            _ => 0,
        };
        ClockSeen {
            ahead_ms: None,
            within_ms: u64::try_from(self.half_trip().as_millis()).unwrap_or(u64::MAX) + 1,
            drift_ms,
            watched_ms: u64::try_from(most.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The wall clock was read when the answer had come, half a round trip after the store's was.
    fn ahead_ms(&self) -> i64 {
        self.now_ms + signed_ms(self.half_trip()) - self.wall_ms
    }

    fn half_trip(&self) -> Duration {
        self.arrived.saturating_sub(self.sent) / 2
    }
}

fn signed_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::memory::Memory;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn reading(sent: u64, arrived: u64, now_ms: i64) -> Reading {
        Reading { sent: ms(sent), arrived: ms(arrived), now_ms, wall_ms: now_ms }
    }

    #[test]
    fn a_clock_that_goes_as_time_goes_does_not_drift_however_slow_the_answers_are() {
        let before = reading(0, 400, 1_000);
        for now in [1_100, 1_500, 1_900] {
            assert_eq!(reading(500, 900, now).since(&before).drift_ms, 0, "{now}");
        }
    }

    #[test]
    fn a_clock_that_jumps_or_stands_still_shows() {
        let before = reading(0, 10, 1_000);
        assert_eq!(reading(500, 510, 61_510).since(&before).drift_ms, 60_000);
        assert_eq!(reading(500, 510, 1_000).since(&before).drift_ms, -490);
    }

    #[tokio::test]
    async fn a_look_leaves_nothing_in_the_store() {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let seen = probe(&store).await;
        assert_eq!(seen.commits, Commits::Taken);
        assert!(seen.read_us.is_some() && seen.commit_us.is_some() && seen.clock.is_some());
        assert!(store.scan("", "", 10).await.unwrap().records.is_empty());
    }
}
