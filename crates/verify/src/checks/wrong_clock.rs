//! A process whose wall clock is an hour off takes over from one whose clock is right, and the other way round.

use std::time::Duration;

use bell_store::clock::{boottime, wall};

use crate::figures::{grouped, ms};
use crate::ground::{Ground, PATIENCE, seconds};
use crate::orders::{Answer, Order};
use crate::process::expect_answer;
use crate::verdict::{Done, Stop, ensure};

const TTL_S: u64 = 2;
const HOUR_S: u64 = 3_600;
/// How exact the clock of the other process has to be wrong.
const ABOUT_S: u64 = 120;
/// Neither is late by anything like an hour.
const LATE: Duration = Duration::from_secs(10);

pub(super) async fn run(ground: Ground) -> Done {
    let mut seen = Vec::new();
    let offsets = if ground.many(1, 2) == 1 { ["+1h"].as_slice() } else { &["+1h", "-1h"] };
    for offset in offsets {
        let (there, back) = tampered(&ground, offset).await?;
        seen.push(format!("{offset}: over after {}, back after {}", ms(there), ms(back)));
    }
    Ok(format!(
        "leases of {TTL_S} s went to a process with a wrong wall clock, and back, neither early nor late ({})",
        seen.join("; ")
    ))
}

async fn tampered(ground: &Ground, offset: &str) -> Result<(Duration, Duration), Stop> {
    let ttl = seconds(TTL_S)?;
    let mut wrong = ground.worker_with_clock(offset).await?;
    let told = expect_answer!(wrong.ask(&Order::Clock).await?, Answer::Clock { unix_s } => unix_s);
    let off = told.abs_diff(wall().as_secs());
    if off.abs_diff(HOUR_S) > ABOUT_S {
        let off = grouped(off);
        return Err(Stop::not_run(format!(
            "the clock of the other process should be an hour off, is {off} s off"
        )));
    }
    let key = ground.key(&format!("tampered{offset}"))?;
    let here = ground.party()?;
    let sent = boottime();
    let lease = here.take_for(&key, ttl).await?;
    let order = Order::Take { key: key.clone(), ttl, wait: PATIENCE };
    let (there, asked, granted) = expect_answer!(
        wrong.ask(&order).await?,
        Answer::Taken { fence, sent_us, answered_us } => (fence, sent_us, answered_us)
    );
    let (asked, granted) = (Duration::from_micros(asked), Duration::from_micros(granted));
    ensure!(granted >= lease.deadline, "the process with the wrong clock ({offset}) took the key early");
    ensure!(there > lease.fence, "fence {there} after {}", lease.fence);
    let next = here.wait_for(&key).await?;
    let back = boottime();
    // It can't have got the key before the first lease ended.
    let earliest = asked.max(lease.deadline) + ttl.length() - ttl.margin();
    ensure!(back >= earliest, "the key was taken early from the process with the wrong clock ({offset})");
    ensure!(next.fence > there, "fence {} after {there}", next.fence);
    let (over, back) = (granted.saturating_sub(sent), back.saturating_sub(granted));
    ensure!(
        over.max(back) < ttl.length() + LATE,
        "the key was late by {}",
        ms(over.max(back) - ttl.length())
    );
    Ok((over, back))
}
