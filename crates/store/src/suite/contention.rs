//! Many at once, through both handles: nothing is lost, and nobody sees half a commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{JoinSet, yield_now};

use super::ground::{Done, Ground, Stop, ensure, same};
use crate::record::{Snapshot, Version};
use crate::txn::Outcome;

/// Enough for every pair of tasks to meet, few enough for a disk that syncs slowly.
const TASKS: u64 = 8;
const INCREMENTS: u64 = 10;
const PAIRS: u64 = 40;

pub(super) async fn no_increment_is_lost(ground: Ground) -> Done {
    in_parallel(&ground, |ground, _| async move {
        for _ in 0..INCREMENTS {
            increment(&ground).await?;
        }
        Ok(())
    })
    .await?;
    same("sum", ground.text("sum").await?, Some((TASKS * INCREMENTS).to_string()))
}

pub(super) async fn of_many_creations_one_wins(ground: Ground) -> Done {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let ground = if task % 2 == 0 { ground.clone() } else { ground.elsewhere() };
        tasks.spawn(async move {
            let outcome = ground.plan().absent("a").put("a", task.to_string()).outcome().await?;
            Ok::<_, Stop>(matches!(outcome, Outcome::Committed(_)).then(|| task.to_string()))
        });
    }
    let mut winners = Vec::new();
    while let Some(winner) = tasks.join_next().await {
        winners.extend(winner??);
    }
    same("winners", winners.len(), 1)?;
    same("value", ground.text("a").await?.as_ref(), winners.first())
}

pub(super) async fn commits_of_different_records_do_not_conflict(ground: Ground) -> Done {
    in_parallel(&ground, |ground, task| async move {
        let mut version = 0;
        for _ in 0..INCREMENTS {
            let name = task.to_string();
            version = ground.plan().seen(&name, version).put(&name, "x").commits().await?.revision;
        }
        Ok(())
    })
    .await
}

pub(super) async fn commits_at_once_have_different_revisions(ground: Ground) -> Done {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let ground = if task % 2 == 0 { ground.clone() } else { ground.elsewhere() };
        tasks.spawn(async move { ground.put(&task.to_string(), "x").await });
    }
    let mut revisions = BTreeSet::new();
    while let Some(revision) = tasks.join_next().await {
        revisions.insert(revision??);
    }
    same("revisions", revisions.len() as u64, TASKS)
}

pub(super) async fn no_read_sees_half_a_commit(ground: Ground) -> Done {
    watching_pairs(ground, |ground| async move { ground.read(&["left", "right"]).await }).await
}

pub(super) async fn no_scan_sees_half_a_commit(ground: Ground) -> Done {
    watching_pairs(ground, |ground| async move { Ok(ground.store.scan(ground.prefix(), "", 10).await?) })
        .await
}

/// Runs the same in several tasks, half of them through the other handle.
async fn in_parallel<Work>(ground: &Ground, work: fn(Ground, u64) -> Work) -> Done
where
    Work: Future<Output = Done> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let ground = if task % 2 == 0 { ground.clone() } else { ground.elsewhere() };
        tasks.spawn(work(ground, task));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Adds one to a record, deciding again on every conflict from what the conflict carries.
async fn increment(ground: &Ground) -> Done {
    let name = ground.name("sum");
    let mut seen = ground.read(&["sum"]).await?;
    loop {
        let (sum, version) = sum_in(&seen, name.as_str())?;
        let plan = ground.plan().seen("sum", version).put("sum", (sum + 1).to_string());
        match plan.outcome().await? {
            Outcome::Committed(_) => return Ok(()),
            Outcome::Conflict(current) => seen = current,
        }
    }
}

fn sum_in(seen: &Snapshot, name: &str) -> Result<(u64, Version), Stop> {
    let Some(record) = seen.records.get(name) else { return Ok((0, 0)) };
    let text = String::from_utf8_lossy(&record.value);
    let sum = text.parse().map_err(|_| Stop::Failed(format!("the sum became {text:?}")))?;
    Ok((sum, record.version))
}

/// Writes two records together, again and again, while others look whether they ever differ.
async fn watching_pairs<Look>(ground: Ground, look: fn(Ground) -> Look) -> Done
where
    Look: Future<Output = Result<Snapshot, Stop>> + Send + 'static,
{
    let written = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for ground in [ground.clone(), ground.elsewhere()] {
        readers.spawn(compare_pairs(ground, look, Arc::clone(&written)));
    }
    let writing = write_pairs(&ground).await;
    written.store(true, Ordering::SeqCst);
    writing?;
    while let Some(done) = readers.join_next().await {
        done??;
    }
    Ok(())
}

async fn write_pairs(ground: &Ground) -> Done {
    for round in 0..PAIRS {
        let value = round.to_string();
        ground.plan().put("left", value.clone()).put("right", value).commits().await?;
        yield_now().await;
    }
    Ok(())
}

async fn compare_pairs<Look>(ground: Ground, look: fn(Ground) -> Look, written: Arc<AtomicBool>) -> Done
where
    Look: Future<Output = Result<Snapshot, Stop>> + Send + 'static,
{
    let (left, right) = (ground.name("left"), ground.name("right"));
    while !written.load(Ordering::SeqCst) {
        let seen = look(ground.clone()).await?;
        ensure!(
            seen.records.get(&left).map(|record| &record.value)
                == seen.records.get(&right).map(|record| &record.value),
            "half a commit was seen: {seen:?}"
        );
        yield_now().await;
    }
    Ok(())
}
