//! Whoever waits for a change hears of it. Early returns are allowed, so each waiter looks for itself.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::ground::{Done, Ground, PATIENCE, Stop, ensure};
use crate::record::{Revision, Version};
use crate::txn::Watch;

/// Gives a waiter time to be waiting before the change comes. A case holds as well if it is not yet.
const HEAD_START: Duration = Duration::from_millis(30);

pub(super) async fn a_waiter_hears_of_a_write(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    let waiter = waiting(&ground, &[("a", version)]).await;
    ground.put("a", "2").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_hears_of_a_creation(ground: Ground) -> Done {
    let waiter = waiting(&ground, &[("a", 0)]).await;
    ground.put("a", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_hears_of_a_deletion(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    let waiter = waiting(&ground, &[("a", version)]).await;
    ground.delete("a").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_hears_of_any_of_its_names(ground: Ground) -> Done {
    let version = ground.put("b", "1").await?;
    let waiter = waiting(&ground, &[("a", 0), ("b", version), ("c", 0)]).await;
    ground.put("c", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_hears_of_its_record_after_changes_of_others(ground: Ground) -> Done {
    let waiter = waiting(&ground, &[("a", 0)]).await;
    for _ in 0..10 {
        ground.put("unrelated", "x").await?;
    }
    ground.put("a", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_hears_of_what_the_other_handle_writes(ground: Ground) -> Done {
    let waiter = waiting(&ground, &[("a", 0)]).await;
    ground.elsewhere().put("a", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_change_before_the_wait_is_heard_at_once(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    ground.put("a", "2").await?;
    returns(&ground, &Watch::Names(vec![(ground.name("a"), version)])).await?;
    returns(&ground, &Watch::Names(vec![(ground.name("a"), 0)])).await?;
    ground.delete("a").await?;
    returns(&ground, &Watch::Names(vec![(ground.name("a"), version)])).await
}

pub(super) async fn a_waiter_on_a_prefix_hears_of_a_write(ground: Ground) -> Done {
    let after = ground.put("p/1", "1").await?;
    let waiter = waiting_under(&ground, "p/", after).await;
    ground.put("p/1", "2").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_on_a_prefix_hears_of_a_creation(ground: Ground) -> Done {
    let after = ground.read(&[]).await?.revision;
    let waiter = waiting_under(&ground, "p/", after).await;
    ground.put("p/new", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_on_a_prefix_hears_of_a_deletion(ground: Ground) -> Done {
    let after = ground.put("p/1", "1").await?;
    let watch = Watch::Prefix(ground.name("p/").to_string(), after);
    let watcher = ground.clone();
    let waiter = spawn(async move {
        while watcher.get("p/1").await?.is_some() {
            watcher.store.changed(&watch).await?;
        }
        Ok(())
    })
    .await;
    ground.delete("p/1").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_on_a_prefix_hears_of_what_the_other_handle_writes(ground: Ground) -> Done {
    let after = ground.read(&[]).await?.revision;
    let waiter = waiting_under(&ground, "p/", after).await;
    ground.elsewhere().put("p/1", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_waiter_on_a_prefix_hears_of_its_record_after_changes_of_others(ground: Ground) -> Done {
    let after = ground.read(&[]).await?.revision;
    let waiter = waiting_under(&ground, "p/", after).await;
    for _ in 0..10 {
        ground.put("unrelated", "x").await?;
    }
    ground.put("p/1", "1").await?;
    heard(waiter).await
}

pub(super) async fn a_change_under_a_prefix_before_the_wait_is_heard_at_once(ground: Ground) -> Done {
    let after = ground.put("p/1", "1").await?;
    ground.put("p/2", "1").await?;
    returns(&ground, &Watch::Prefix(ground.name("p/").to_string(), after)).await
}

pub(super) async fn every_one_of_many_waiters_hears(ground: Ground) -> Done {
    let mut waiters = Vec::new();
    for number in 0..100 {
        let ground = if number % 2 == 0 { ground.clone() } else { ground.elsewhere() };
        waiters.push(tokio::spawn(see_change(ground, vec![("a".to_owned(), 0)])));
    }
    sleep(HEAD_START).await;
    ground.put("a", "1").await?;
    for waiter in waiters {
        heard(waiter).await?;
    }
    Ok(())
}

pub(super) async fn waits_that_were_dropped_are_in_nobodys_way(ground: Ground) -> Done {
    for _ in 0..200 {
        let watch = Watch::Names(vec![(ground.name("a"), 0)]);
        // Polled once or a few times, then dropped.
        let dropped = timeout(Duration::from_millis(1), ground.store.changed(&watch)).await;
        ensure!(!matches!(dropped, Ok(Err(_))), "a wait failed: {dropped:?}");
    }
    let waiter = waiting(&ground, &[("a", 0)]).await;
    ground.put("a", "1").await?;
    heard(waiter).await
}

pub(super) async fn waiting_is_not_spinning(ground: Ground) -> Done {
    let watch = Watch::Names(vec![(ground.name("a"), 0)]);
    let mut returns = 0;
    let spinning = async {
        while returns < 100 {
            ground.store.changed(&watch).await?;
            returns += 1;
        }
        Ok::<_, Stop>(())
    };
    match timeout(Duration::from_millis(200), spinning).await {
        Err(_) => Ok(()),
        Ok(ended) => {
            ended?;
            Err(Stop::Failed(format!("it returned {returns} times in 200 ms although nothing changed")))
        }
    }
}

/// Starts a task that waits until one of the records is at another version than the one given.
async fn waiting(ground: &Ground, seen: &[(&str, Version)]) -> JoinHandle<Done> {
    let seen = seen.iter().map(|(rest, version)| ((*rest).to_owned(), *version)).collect();
    spawn(see_change(ground.clone(), seen)).await
}

async fn see_change(ground: Ground, seen: Vec<(String, Version)>) -> Done {
    let names = seen.iter().map(|(rest, version)| (ground.name(rest), *version)).collect();
    let watch = Watch::Names(names);
    let rests: Vec<&str> = seen.iter().map(|(rest, _)| rest.as_str()).collect();
    loop {
        ground.store.changed(&watch).await?;
        let current = ground.read(&rests).await?;
        let differs =
            |(rest, version): &(String, Version)| current.version(ground.name(rest).as_str()) != *version;
        if seen.iter().any(differs) {
            return Ok(());
        }
    }
}

/// Starts a task that waits until a record under the prefix was written after the revision.
async fn waiting_under(ground: &Ground, under: &'static str, after: Revision) -> JoinHandle<Done> {
    let ground = ground.clone();
    spawn(async move {
        let prefix = ground.name(under).to_string();
        let mut looked_at = after;
        loop {
            ground.store.changed(&Watch::Prefix(prefix.clone(), looked_at)).await?;
            let current = ground.store.scan(&prefix, "", 100).await?;
            if current.records.values().any(|record| record.version > after) {
                return Ok(());
            }
            looked_at = current.revision;
        }
    })
    .await
}

async fn spawn(wait: impl Future<Output = Done> + Send + 'static) -> JoinHandle<Done> {
    let waiter = tokio::spawn(wait);
    sleep(HEAD_START).await;
    waiter
}

async fn heard(mut waiter: JoinHandle<Done>) -> Done {
    match timeout(PATIENCE, &mut waiter).await {
        Ok(ended) => ended?,
        Err(_) => {
            waiter.abort();
            Err(Stop::Failed(format!("the change was not heard of within {PATIENCE:?}")))
        }
    }
}

async fn returns(ground: &Ground, watch: &Watch) -> Done {
    match timeout(PATIENCE, ground.store.changed(watch)).await {
        Ok(changed) => Ok(changed?),
        Err(_) => Err(Stop::Failed(format!("still waiting after {PATIENCE:?} for {watch:?}"))),
    }
}
