//! Another process waits for a change that this one makes.

use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::info::Push;
use bell_store::{Outcome, Stamp, Txn, Write};

use crate::figures::{ms, percentile};
use crate::ground::Ground;
use crate::orders::{Answer, Order};
use crate::process::{Worker, expect_answer};
use crate::verdict::{Done, Stop, ensure};

/// After this long a change counts as not told.
const TOLD_WITHIN: Duration = Duration::from_secs(4);
/// So many that were not told are no accident.
const MISSES: usize = 2;
/// For the other process to get to wait.
const SETTLE: Duration = Duration::from_millis(30);
/// Told at once, on a machine that may be busy.
const AT_ONCE: Duration = Duration::from_secs(1);

pub(super) async fn run(ground: Ground) -> Done {
    let mut told = Vec::new();
    let mut misses = 0;
    let mut watcher = ground.worker().await?;
    for number in 0..ground.many(15, 200) {
        match tokio::time::timeout(TOLD_WITHIN, change(&ground, &mut watcher, number)).await {
            Ok(took) => told.push(took?),
            Err(_) => {
                misses += 1;
                ensure!(misses < MISSES, "{misses} changes were not told in {}", ms(TOLD_WITHIN));
                watcher = ground.worker().await?;
            }
        }
    }
    let (half, most) = (percentile(&mut told, 50), percentile(&mut told, 99));
    let seen =
        format!("{} changes by another process arrived after p50 {}, p99 {}", told.len(), ms(half), ms(most));
    match ground.info().push {
        Push::Push => {
            ensure!(half < AT_ONCE, "{seen}, and the store claims to tell of them at once");
            Ok(format!("{seen}: pushed, as the store claims"))
        }
        Push::Poll { interval_ms } => {
            let interval = Duration::from_millis(interval_ms);
            ensure!(half < interval + AT_ONCE, "{seen}, and the store claims to look every {interval_ms} ms");
            Ok(format!("{seen}: looked for every {interval_ms} ms, as the store claims"))
        }
    }
}

/// Changes a record that the other process waits for; how long until it knew.
async fn change(ground: &Ground, watcher: &mut Worker, number: usize) -> Result<Duration, Stop> {
    let name = ground.name(&number.to_string());
    watcher.order(&Order::Await { name: name.to_string(), version: 0 }).await?;
    tokio::time::sleep(SETTLE).await;
    let writes = vec![(name, Write::Put(b"changed".to_vec(), Stamp::New))];
    let began = boottime();
    match ground.handle().store.commit(Txn { writes, ..Txn::default() }).await? {
        Outcome::Committed(_) => {}
        Outcome::Conflict(_) => return Err(Stop::failed("a commit that expected nothing was in conflict")),
    }
    let at_us = expect_answer!(watcher.answer().await?, Answer::Changed { at_us } => at_us);
    Ok(Duration::from_micros(at_us).saturating_sub(began))
}
