//! A real process is stopped for longer than its lease lasts, and writes when it wakes up.

use crate::ground::{Ground, seconds};
use crate::orders::{Answer, Order};
use crate::process::{Worker, expect_answer};
use crate::verdict::{Done, Stop, ensure};

/// Writes that the stopped process tries when it wakes up.
const TRIES: u32 = 100;
const TTL_S: u64 = 2;
const RESOURCE: &str = "stale-writer";

pub(super) async fn run(ground: Ground) -> Done {
    let rounds = ground.many(1, 10);
    let mut told = String::new();
    for round in 0..rounds {
        told = stopped(&ground, round).await?;
    }
    Ok(format!(
        "stopped for longer than its ttl of {TTL_S} s, it wrote 0 of {} times once its successor had written; \
         its own check said «{told}»",
        TRIES as usize * rounds
    ))
}

/// One round; what the holder's own check said when it woke up.
async fn stopped(ground: &Ground, round: usize) -> Result<String, Stop> {
    let key = ground.key(&format!("held-{round}"))?;
    let resource = format!("{RESOURCE}-{round}");
    let mut holder = ground.worker().await?;
    let hold = Order::Hold { key: key.clone(), ttl: seconds(TTL_S)? };
    let held = expect_answer!(holder.ask(&hold).await?, Answer::Taken { fence, .. } => fence);
    let accepted = written(&mut holder, Order::Write { resource: resource.clone(), times: 3 }).await?;
    ensure!(accepted == 3, "{accepted} of 3 writes were accepted while it held the key");

    holder.pause().await?;
    let successor = ground.party()?;
    let lease = successor.wait_for(&key).await?;
    ensure!(lease.fence > held, "the successor got fence {}, the stopped holder had {held}", lease.fence);
    let guard = ground.handle().guard();
    guard
        .write(&resource, lease.fence, b"successor")
        .await
        .map_err(|error| Stop::failed(error.to_string()))?;

    // The order is there when it wakes up: it writes first and looks at its lease only then.
    holder.order(&Order::Write { resource: resource.clone(), times: TRIES }).await?;
    holder.order(&Order::Check).await?;
    holder.resume()?;
    let accepted = expect_answer!(holder.answer().await?, Answer::Wrote { accepted } => accepted);
    ensure!(accepted == 0, "{accepted} of {TRIES} stale writes were accepted");
    let lost = expect_answer!(holder.answer().await?, Answer::Checked { lost } => lost);
    let kept = guard.read(&resource).await?.map(|guarded| guarded.value).unwrap_or_default();
    ensure!(kept == b"successor", "the value is {:?}", String::from_utf8_lossy(&kept));
    lost.ok_or_else(|| Stop::failed("it still believed that it held the key"))
}

async fn written(holder: &mut Worker, order: Order) -> Result<u32, Stop> {
    expect_answer!(holder.ask(&order).await?, Answer::Wrote { accepted } => Ok(accepted))
}
