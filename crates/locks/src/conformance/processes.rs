//! L2, L6, L10 and L16 with real processes: raced, killed, and given a wrong clock.

use std::time::Duration;

use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::session::SESSION_TTL;
use bell_store::clock::{boottime, wall};

use super::ground::{Done, Ground, PATIENCE, Stop, ensure, file, seconds};

/// Acquisitions of one key by two processes together.
const RACE: u64 = 10_000;

/// How soon what a dead process held is free where its death is noticed.
const NOTICED: Duration = Duration::from_secs(1);

/// Deaths before one must have been noticed in time: this machine may be busy.
const DEATHS: usize = 3;

fn fence(text: &str) -> Result<Fence, Stop> {
    text.parse().map(Fence).map_err(|_| Stop::failed(format!("{text:?} is no fence")))
}

pub(super) async fn two_processes_racing_for_a_key_never_both_have_it(ground: Ground) -> Done {
    let (key, folder) = (ground.key("a")?, ground.folder()?);
    let counter = file(&folder, "counter");
    std::fs::write(&counter, "0 0")?;
    let mut racers = [ground.worker().await?, ground.worker().await?];
    for racer in &mut racers {
        racer.order(&format!("race {} {key} {}", RACE / 2, folder.path().display()))?;
    }
    for racer in &mut racers {
        racer.must_say("raced").await?;
    }
    let text = std::fs::read_to_string(&counter)?;
    let (count, last) = text.split_once(' ').unwrap_or_default();
    ensure!(count == RACE.to_string(), "{RACE} were counted under the lock, the file says {count}");
    let next = ground.party(0)?.take(&key).await?.fence;
    ensure!(next > fence(last)?, "fence {next} after {last}");
    Ok(format!("{RACE} acquisitions, none lost, every fence greater than the one before"))
}

pub(super) async fn what_a_killed_process_held_is_free_in_time(ground: Ground) -> Done {
    let notices = ground.capabilities().notices_death;
    let in_time = if notices { NOTICED } else { SESSION_TTL + NOTICED };
    let mut seen = Vec::new();
    for death in 0..DEATHS {
        let key = ground.key(&death.to_string())?;
        let took = killed_holder(&ground, &key).await?;
        seen.push(took.as_millis());
        if took <= in_time {
            return Ok(format!("the next in line had it {} ms after the kill", took.as_millis()));
        }
    }
    Err(Stop::failed(format!("it took {seen:?} ms, and must be {} ms at most", in_time.as_millis())))
}

/// How long after a kill the next in line has what the dead process held.
async fn killed_holder(ground: &Ground, key: &Key) -> Result<Duration, Stop> {
    let mut worker = ground.worker().await?;
    let held = fence(&worker.answers(&format!("hold {key} 600000"), "held").await?)?;
    let party = ground.party(1)?;
    party.is_refused(key).await?;
    let wanted = key.clone();
    let waiting = tokio::spawn(async move {
        let answer = party.wait_for(&wanted).await;
        (party, answer)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    worker.kill()?;
    let killed = boottime();
    let (_party, answer) = waiting.await?;
    let next = answer?;
    ensure!(next.fence > held, "fence {} after {held}", next.fence);
    Ok(boottime() - killed)
}

pub(super) async fn a_killed_waiter_does_not_block_those_behind_it(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let holder = ground.party(0)?;
    let lease = holder.take(&key).await?;
    let mut worker = ground.worker().await?;
    worker.order(&format!("take {key} 600000 600000"))?;
    ground.until_waiting(&key, 1).await?;
    let behind = ground.party(1)?;
    let wanted = key.clone();
    let waiting = tokio::spawn(async move {
        let answer = behind.wait_for(&wanted).await;
        (behind, answer)
    });
    ground.until_waiting(&key, 2).await?;
    worker.kill()?;
    holder.release(&lease).await?;
    let (_behind, answer) = waiting.await?;
    let next = answer?;
    ensure!(next.fence > lease.fence, "fence {} after {}", next.fence, lease.fence);
    Ok("the one behind the dead was served".to_owned())
}

pub(super) async fn a_clock_an_hour_ahead_changes_nothing(ground: Ground) -> Done {
    wrong_clock(&ground, "+1h", 3_600).await
}

pub(super) async fn a_clock_an_hour_behind_changes_nothing(ground: Ground) -> Done {
    wrong_clock(&ground, "-1h", -3_600).await
}

/// A process with a wrong clock takes over from one with a right clock, and the other way round: neither
/// early nor an hour late.
async fn wrong_clock(ground: &Ground, offset: &str, offset_secs: i64) -> Done {
    let ttl = seconds(2)?;
    let mut wrong = ground.worker_with_clock(offset).await?;
    let told: i64 = wrong.answers("clock", "clock").await?.parse().unwrap_or_default();
    let off = told - i64::try_from(wall().as_secs()).unwrap_or_default();
    ensure!((off - offset_secs).abs() < 60, "the clock should be {offset_secs} s off, is {off} s off");

    let (key, here) = (ground.key("a")?, ground.party(0)?);
    let lease = here.take_for(&key, ttl).await?;
    let patience = PATIENCE.as_millis();
    let there = fence(&wrong.answers(&format!("take {key} 2000 {patience}"), "taken").await?)?;
    ensure!(boottime() >= lease.deadline, "taken early by the process with the wrong clock");
    ensure!(there > lease.fence, "fence {there} after {}", lease.fence);

    // From when its lease was asked for, at the earliest: it can't have asked before the first one ended.
    let earliest = lease.deadline + ttl.length() - ttl.margin();
    let next = here.wait_for(&key).await?;
    ensure!(boottime() >= earliest, "taken early from the process with the wrong clock");
    ensure!(next.fence > there, "fence {} after {there}", next.fence);
    Ok(format!("{off} s off; leases of 2 s went over and back, neither early nor late"))
}
