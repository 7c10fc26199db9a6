//! A process that holds a key is killed while others wait, and so is one that waits.

use std::time::Duration;

use bell_coord::Ask;
use bell_core::session::SESSION_TTL;
use bell_store::clock::boottime;

use crate::figures::ms;
use crate::ground::{Ground, seconds};
use crate::orders::{Answer, Order};
use crate::process::expect_answer;
use crate::verdict::{Done, Stop, ensure};

/// On top of what the store claims, for a machine that is busy.
const SLACK: Duration = Duration::from_secs(10);
/// Noticed means before the lease of a session would have run out anyway.
const NOTICED: Duration = Duration::from_secs(10);
const _: () = assert!(NOTICED.as_secs() < SESSION_TTL.as_secs());

pub(super) async fn run(ground: Ground) -> Done {
    let notices = ground.info().notices_death;
    let bound = if notices { NOTICED } else { SESSION_TTL + SLACK };
    let mut slowest = Duration::ZERO;
    let rounds = ground.many(1, 4);
    for round in 0..rounds {
        let took = killed(&ground, round, bound).await?;
        ensure!(took <= bound, "the next in line had to wait {} for a dead holder", ms(took));
        slowest = slowest.max(took);
    }
    let claim =
        if notices { "the store notices a death on this machine" } else { "a session lasts 15 s unseen" };
    Ok(format!(
        "a holder and the first in line were killed with half an hour of ttl left; the next had the key {} later ({claim})",
        ms(slowest)
    ))
}

/// Kills a holder and a waiter; how long the next in line waited then.
async fn killed(ground: &Ground, round: usize, bound: Duration) -> Result<Duration, Stop> {
    let key = ground.key(&format!("held-{round}"))?;
    let ttl = seconds(1_800)?;
    let (mut holder, mut waiter) = (ground.worker().await?, ground.worker().await?);
    let hold = Order::Hold { key: key.clone(), ttl };
    let held = expect_answer!(holder.ask(&hold).await?, Answer::Taken { fence, .. } => fence);
    waiter.order(&Order::Take { key: key.clone(), ttl, wait: ttl.length() }).await?;
    ground.until_waiting(&key, 1).await?;
    let survivor = ground.party()?;
    let next = survivor.ask(Ask::new(key.clone()).wait(bound + SLACK));
    let kill = async {
        ground.until_waiting(&key, 2).await?;
        waiter.kill().await?;
        holder.kill().await?;
        Ok::<_, Stop>(boottime())
    };
    let (next, killed) = tokio::join!(next, kill);
    let (next, killed) = (next?, killed?);
    let took = boottime().saturating_sub(killed);
    ensure!(next.fence > held, "the next got fence {} after {held}", next.fence);
    survivor.release(&next).await?;
    Ok(took)
}
