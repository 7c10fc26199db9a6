//! L17: an operator takes a lock away.

use bell_coord::{Ask, Denied};

use super::ground::{Done, Ground, PATIENCE, Party, Stop, ensure, expects};
use crate::held::Loss;

const REASON: &str = "the deploy hangs";

pub(super) async fn a_break_frees_the_key_and_raises_the_fence(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (holder, operator) = (ground.party(0)?, ground.party(1)?);
    let lease = holder.take(&key).await?;
    // The dry run: it shows who would lose the key, and changes nothing.
    let shown = operator.backend.show(&key).await?.holders;
    holder.sees_held(&key, lease.fence).await?;
    let broken = operator.backend.break_lock(&key, REASON, "the suite").await?;
    let sessions = |holders: &[bell_core::acquire::PublicHolder]| {
        holders.iter().map(|holder| holder.session.clone()).collect::<Vec<_>>()
    };
    ensure!(sessions(&broken.holders) == sessions(&shown), "taken from {:?}, not {shown:?}", broken.holders);
    let raised = broken.fence.ok_or_else(|| Stop::failed("the break tells no fence"))?;
    ensure!(raised > lease.fence, "the break raised the fence from {} to {raised}", lease.fence);
    operator.sees_free(&key).await?;
    expects!(holder.renew(&lease).await, Err(Denied::NotHeld) => (), "not held");
    let next = operator.take(&key).await?;
    ensure!(next.fence > raised, "fence {} after a break at {raised}", next.fence);
    Ok(format!("fence {}, broken at {raised}, next {}", lease.fence, next.fence))
}

pub(super) async fn a_break_is_told_to_the_holder(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let held = Party::locks(ground.handle(0).clone())?.lock(Ask::new(key.clone())).await?;
    ground.handle(1).break_lock(&key, REASON, "the suite").await?;
    let loss = tokio::time::timeout(PATIENCE, held.lost()).await;
    let loss = loss.map_err(|_| Stop::failed(format!("not told in {PATIENCE:?}")))?;
    ensure!(loss == Loss::Broken(REASON.to_owned()), "told «{loss}»");
    ensure!(held.check().is_err(), "the check still passes");
    Ok(format!("told «{loss}», with half an hour left of the ttl"))
}

pub(super) async fn a_break_serves_who_waited(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (holder, waiter) = (ground.party(0)?, ground.party(1)?);
    let lease = holder.take(&key).await?;
    let ask = Ask::new(key.clone()).wait(PATIENCE);
    let waiting = tokio::spawn(async move {
        let answer = waiter.ask(ask).await;
        (waiter, answer)
    });
    ground.until_waiting(&key, 1).await?;
    ground.handle(2).break_lock(&key, REASON, "the suite").await?;
    let (waiter, answer) = waiting.await?;
    let next = answer?;
    ensure!(next.fence > lease.fence, "fence {} after {}", next.fence, lease.fence);
    waiter.sees_held(&key, next.fence).await?;
    Ok(format!("fence {} for the first in line", next.fence))
}

pub(super) async fn a_free_key_can_not_be_broken(ground: Ground) -> Done {
    let answer = ground.handle(0).break_lock(&ground.key("a")?, REASON, "the suite").await;
    expects!(answer, Err(Denied::NotHeld) => Ok("not held".to_owned()), "not held")
}
