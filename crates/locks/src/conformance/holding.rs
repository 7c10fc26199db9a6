//! L11 to L13: how a holder keeps its lease, and how it learns that it has lost it.
//!
//! The backend under trial is behind one that fails on demand, so that what is seen here is how the two
//! get on when the way between them breaks.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Denied};
use bell_core::key::Key;
use bell_core::lock::{MIN_MARGIN, Ttl};
use bell_store::clock::boottime;

use super::faulty::{Fault, Faulty};
use super::ground::{Done, Ground, LOOK_EVERY, MOMENT, PATIENCE, Party, Stop, ensure, expects, seconds};
use crate::held::{Held, Loss};

/// A kept lease behind a way that can be broken.
struct Behind {
    key: Key,
    way: Arc<Faulty>,
    held: Held,
    /// Somebody else, whose way is whole.
    other: Party,
}

impl Behind {
    async fn with_ttl(ground: &Ground, ttl: Ttl) -> Result<Self, Stop> {
        let (key, way) = (ground.key("a")?, Faulty::over(ground.handle(0)));
        let held = Party::locks(way.clone())?.lock(Ask::new(key.clone()).ttl(ttl)).await?;
        Ok(Self { key, way, held, other: ground.party(1)? })
    }

    /// Waits until the holder has been told.
    async fn loss(&self) -> Result<Loss, Stop> {
        let told = tokio::time::timeout(PATIENCE, self.held.lost()).await;
        told.map_err(|_| Stop::failed(format!("no loss was told in {PATIENCE:?}")))
    }
}

pub(super) async fn the_deadline_leaves_the_margin(ground: Ground) -> Done {
    let party = ground.party(0)?;
    for length in [1, 2, 10, 60, 1_800] {
        let ttl = seconds(length)?;
        let margin = (ttl.length() / 5).max(MIN_MARGIN);
        ensure!(ttl.margin() == margin, "the margin of {length} s is {:?}", ttl.margin());
        let lease = party.take_for(&ground.key(&format!("{length}"))?, ttl).await?;
        let latest = boottime() + ttl.length() - margin;
        ensure!(lease.deadline <= latest, "{length} s: relied on for {:?} too long", lease.deadline - latest);
    }
    Ok("at least a fifth of the ttl, and 500 ms, before the store's end".to_owned())
}

pub(super) async fn a_holder_stops_before_the_store_does(ground: Ground) -> Done {
    let behind = Behind::with_ttl(&ground, seconds(5)?).await?;
    let fence = behind.held.fence();
    behind.way.fail(Fault::Silent);
    let deadline = behind.held.lease().deadline;
    while behind.held.check().is_ok() {
        ensure!(boottime() < deadline + PATIENCE, "relied on long after the deadline");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let stopped = boottime();
    let loss = behind.held.check();
    // It may have stopped late on a busy machine; then the store's end can't be compared any more.
    if stopped < deadline + Duration::from_millis(400) {
        behind.other.sees_held(&behind.key, fence).await?;
    }
    ensure!(stopped + MOMENT >= deadline, "stopped {:?} early", deadline - stopped);
    Ok(format!(
        "«{}» {} ms after the deadline, while the store still had it",
        said(loss),
        stopped.saturating_sub(deadline).as_millis()
    ))
}

fn said(loss: Result<(), Loss>) -> String {
    loss.map_or_else(|loss| loss.to_string(), |()| "not lost".to_owned())
}

pub(super) async fn a_lease_is_kept_while_its_holders_executor_is_blocked(ground: Ground) -> Done {
    const BLOCKED: Duration = Duration::from_secs(7);
    let (key, backend) = (ground.key("a")?, Arc::clone(ground.handle(0)));
    let (ttl, wanted) = (seconds(3)?, key.clone());
    let blocked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let held = Party::locks(backend)?.lock(Ask::new(wanted).ttl(ttl)).await?;
            // What a task of a busy program does: nothing else of its runtime moves meanwhile.
            std::thread::sleep(BLOCKED);
            let kept = held.check().map_err(|loss| Stop::failed(format!("lost: {loss}")));
            let kept_until = boottime();
            held.release().await?;
            kept.map(|()| kept_until)
        })
    });
    let other = ground.party(1)?;
    while other.holders(&key).await?.is_empty() {
        ensure!(!blocked.is_finished(), "the key was not taken");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    other.wait_for(&key).await?;
    let granted = boottime();
    let kept_until = blocked.join().map_err(|_| Stop::failed("the blocked program panicked"))??;
    ensure!(granted >= kept_until, "granted to another {:?} before it was released", kept_until - granted);
    Ok(format!("kept for {} s with a ttl of 3 s", BLOCKED.as_secs()))
}

pub(super) async fn the_third_failed_renewal_means_lost(ground: Ground) -> Done {
    let behind = Behind::with_ttl(&ground, seconds(6)?).await?;
    behind.way.fail(Fault::Unreachable);
    let loss = behind.loss().await?;
    let early = behind.held.lease().deadline.saturating_sub(boottime());
    // On a machine that stalls, the deadline may come first; then that is the loss.
    expects!(&loss, Loss::Failing(_) | Loss::Late => (), "a loss by failed renewals");
    let tried = behind.way.renewals();
    ensure!(tried == 3 || (loss == Loss::Late && tried < 3), "lost after {tried} renewals: {loss}");
    ensure!(behind.held.check() == Err(loss.clone()), "the check does not agree with {loss}");
    Ok(format!("«{loss}», {} ms before the deadline", early.as_millis()))
}

pub(super) async fn two_failed_renewals_are_made_good(ground: Ground) -> Done {
    let behind = Behind::with_ttl(&ground, seconds(6)?).await?;
    let before = behind.held.lease().deadline;
    behind.way.fail_times(Fault::Unreachable, 2);
    let give_up = boottime() + PATIENCE;
    while behind.held.lease().deadline == before {
        behind.held.check().map_err(|loss| Stop::failed(format!("lost after two failures: {loss}")))?;
        ensure!(boottime() < give_up, "no renewal in {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    behind.held.check().map_err(|loss| Stop::failed(format!("lost: {loss}")))?;
    Ok(format!("renewed with the {}rd try", behind.way.renewals()))
}

pub(super) async fn an_answer_that_another_holds_it_means_lost_at_once(ground: Ground) -> Done {
    let behind = Behind::with_ttl(&ground, seconds(6)?).await?;
    // As if somebody had cleaned up: the lease ends behind the holder's back.
    let inner = ground.handle(0);
    inner.release(behind.held.session(), &behind.held.lease()).await?;
    let successor = behind.other.take(&behind.key).await?;
    let loss = behind.loss().await?;
    expects!(&loss, Loss::NotHolder(_) => (), "a loss to another");
    ensure!(behind.way.renewals() == 1, "{} renewals before the loss", behind.way.renewals());
    behind.other.sees_held(&behind.key, successor.fence).await?;
    Ok(format!("«{loss}», with the first renewal"))
}

pub(super) async fn lost_is_final(ground: Ground) -> Done {
    let behind = Behind::with_ttl(&ground, seconds(2)?).await?;
    behind.way.fail(Fault::Silent);
    let loss = behind.loss().await?;
    behind.way.heal();
    // Long enough for a renewal that should no longer be tried, and for one that would succeed.
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(behind.held.check() == Err(loss.clone()), "«{loss}» became {:?}", behind.held.check());
    Ok(format!("«{loss}» stands after the way was whole again"))
}

pub(super) async fn a_loss_is_told_to_who_waits_for_it(ground: Ground) -> Done {
    let behind = Behind::with_ttl(&ground, seconds(2)?).await?;
    behind.way.fail(Fault::Unreachable);
    let loss = behind.loss().await?;
    behind.way.heal();
    match behind.held.release().await {
        Err(Denied::Lost(why)) => Ok(format!("told «{loss}», and «lost: {why}» at the release")),
        other => Err(Stop::failed(format!("the release of a lost lease answered {other:?}"))),
    }
}
