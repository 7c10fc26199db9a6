//! The store has one clock that never goes back, and commits decided for another time conflict.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ground::{Done, Ground, PATIENCE, Stop, ensure, same};
use crate::info::Clock;
use crate::record::Timestamp;
use crate::txn::{MAX_LAG, Outcome};

pub(super) async fn the_clock_never_goes_back(ground: Ground) -> Done {
    let mut last = ground.store.now().await?;
    for round in 0..20 {
        let ground = if round % 2 == 0 { ground.clone() } else { ground.elsewhere() };
        for now in [
            ground.store.now().await?,
            ground.read(&["a"]).await?.now,
            ground.store.scan(ground.prefix(), "", 1).await?.now,
            ground.plan().commits().await?.now,
            ground.plan().at("a", 1).conflicts().await?.now,
        ] {
            ensure!(now >= last, "{now:?} after {last:?}");
            last = now;
        }
    }
    Ok(())
}

pub(super) async fn the_clock_advances(ground: Ground) -> Done {
    if ground.store.info().clock == Clock::Manual {
        return Err(Stop::Skipped("the clock is moved by hand"));
    }
    let (start, watch) = (ground.store.now().await?, Instant::now());
    while ground.store.now().await? == start {
        ensure!(watch.elapsed() < PATIENCE, "still {start:?} after {PATIENCE:?}");
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

pub(super) async fn both_handles_tell_the_same_time(ground: Ground) -> Done {
    // Asked in between, so that the answer must lie in between.
    let before = ground.store.now().await?;
    let between = ground.other.now().await?;
    let after = ground.store.now().await?;
    ensure!((before..=after).contains(&between), "{between:?} is not between {before:?} and {after:?}");
    Ok(())
}

pub(super) async fn a_commit_decided_for_now_goes_through(ground: Ground) -> Done {
    let mut now = ground.store.now().await?;
    // A machine that stalls for longer than the allowed lag makes a true conflict; it tells the time again.
    for _ in 0..20 {
        match ground.plan().decided_at(now).put("a", "1").outcome().await? {
            Outcome::Committed(committed) => {
                ensure!(committed.now >= now, "committed at {:?}, before {now:?}", committed.now);
                return same("value", ground.text("a").await?, Some("1".to_owned()));
            }
            Outcome::Conflict(seen) => now = seen.now,
        }
    }
    Err(Stop::Failed("every commit decided for the present conflicted".to_owned()))
}

pub(super) async fn a_commit_decided_for_the_future_conflicts(ground: Ground) -> Done {
    let ahead = ground.store.now().await? + Duration::from_secs(3_600);
    conflicts_at(&ground, ahead).await
}

pub(super) async fn a_commit_decided_too_long_ago_conflicts(ground: Ground) -> Done {
    let old = ground.store.now().await? - MAX_LAG - Duration::from_millis(1);
    conflicts_at(&ground, old).await
}

pub(super) async fn a_check_decided_too_long_ago_conflicts(ground: Ground) -> Done {
    let old = ground.store.now().await? - MAX_LAG - Duration::from_millis(1);
    ground.plan().decided_at(old).absent("a").conflicts().await?;
    Ok(())
}

/// Every expectation holds, so the time alone is what conflicts; the answer has all that deciding again needs.
async fn conflicts_at(ground: &Ground, at: Timestamp) -> Done {
    let version = ground.put("a", "1").await?;
    let plan = ground.plan().decided_at(at).at("a", version).absent("b");
    let seen = plan.put("a", "2").put("b", "2").conflicts().await?;
    same("records in the conflict", seen.records.len(), 1)?;
    same("version in the conflict", seen.version(ground.name("a").as_str()), version)?;
    same("a", ground.text("a").await?, Some("1".to_owned()))?;
    same("b", ground.text("b").await?, None)
}
