//! The store's clock beside this machine's.

use std::time::Duration;

use bell_store::Timestamp;
use bell_store::clock::{boottime, wall};
use bell_store::info::Clock;

use crate::figures::{grouped, ms};
use crate::ground::{Ground, Handle};
use crate::verdict::{Done, Stop, ensure};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How far the store's clock may run ahead of or behind this machine's, in a hundred parts of the time watched.
const DRIFT_PARTS: u32 = 50;
/// On top of that: clocks are read in steps, and a busy machine reads them late.
const STEP: Duration = Duration::from_millis(250);

/// What the store's clock showed, at some moment between two of the boot clock.
#[derive(Clone, Copy)]
struct Reading {
    asked: Duration,
    shown: Timestamp,
    answered: Duration,
}

pub(super) async fn run(ground: Ground) -> Done {
    let handles = [ground.handle().clone(), ground.another().await?];
    let until = ground.until(Duration::from_secs(3));
    let first = read(&handles[0]).await?;
    let off = (signed_ms(wall()) - i128::from(first.shown.as_ms())).unsigned_abs();
    let (mut last, mut readings) = (first, 1);
    while boottime() < until {
        tokio::time::sleep(LOOK_EVERY).await;
        let next = read(&handles[readings % 2]).await?;
        ensure!(next.shown >= last.shown, "the clock went back by {}", ms(last.shown.since(next.shown)));
        keeps_pace(last, next)?;
        keeps_pace(first, next)?;
        (last, readings) = (next, readings + 1);
    }
    let (here, there) = (last.answered - first.answered, last.shown.since(first.shown));
    let whose = match ground.info().clock {
        Clock::Boottime => "this machine's time since boot",
        Clock::FileServer => "the file server's",
        Clock::Server => "the server's",
        Clock::Clients => "counted by its clients",
        Clock::Manual => "set by hand",
    };
    Ok(format!(
        "{readings} readings never went back; it went {} while this machine counted {}; it differs from this machine's \
         wall clock by {} ms, which changes nothing; it is {whose}",
        ms(there),
        ms(here),
        grouped(u64::try_from(off).unwrap_or(u64::MAX)),
    ))
}

async fn read(handle: &Handle) -> Result<Reading, Stop> {
    let asked = boottime();
    let shown = handle.store.now().await?;
    Ok(Reading { asked, shown, answered: boottime() })
}

/// Whether the store's clock went on as fast as this machine's between two readings.
fn keeps_pace(earlier: Reading, later: Reading) -> Result<(), Stop> {
    let most = later.answered.saturating_sub(earlier.asked);
    let least = later.asked.saturating_sub(earlier.answered);
    let went = later.shown.since(earlier.shown);
    ensure!(
        went <= most + most / DRIFT_PARTS + STEP,
        "the clock went {} ahead in {}: it jumps, or is too fast",
        ms(went),
        ms(most)
    );
    ensure!(
        went + least / DRIFT_PARTS + STEP >= least,
        "the clock went {} ahead in {}: it stands, or is too slow",
        ms(went),
        ms(least)
    );
    Ok(())
}

fn signed_ms(time: Duration) -> i128 {
    i128::try_from(time.as_millis()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(asked_ms: u64, shown_ms: u64, answered_ms: u64) -> Reading {
        let at = Duration::from_millis;
        Reading { asked: at(asked_ms), shown: Timestamp::from_ms(shown_ms), answered: at(answered_ms) }
    }

    #[test]
    fn a_slow_answer_is_no_jump() {
        assert!(keeps_pace(reading(0, 1_000, 1), reading(10, 6_000, 5_010)).is_ok());
        assert!(keeps_pace(reading(0, 1_000, 5_000), reading(5_010, 1_010, 5_011)).is_ok());
    }

    #[test]
    fn a_jump_and_a_clock_of_another_speed_are_seen() {
        assert!(keeps_pace(reading(0, 1_000, 1), reading(20, 61_000, 21)).is_err());
        assert!(keeps_pace(reading(0, 1_000, 1), reading(2_000, 5_000, 2_001)).is_err());
        assert!(keeps_pace(reading(0, 1_000, 1), reading(2_000, 1_900, 2_001)).is_err());
    }
}
