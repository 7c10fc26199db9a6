//! L5: an answer at once, with who is in the way, and without a trace.

use bell_coord::Ask;
use bell_store::clock::boottime;
use tokio::task::JoinSet;

use super::ground::{Done, Ground, PATIENCE, Stop, ensure, seconds};

pub(super) async fn busy_tells_who_holds_the_key_and_for_how_long(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let ttl = seconds(60)?;
    let sent = boottime();
    let lease = one.take_for(&key, ttl).await?;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let busy = two.is_refused(&key).await?;
    let most = boottime() - sent + bell_store::txn::MAX_LAG;
    ensure!(busy.key == key, "told of {}", busy.key);
    let [holder] = busy.holders.as_slice() else {
        return Err(Stop::failed(format!("one holds the key, told of {:?}", busy.holders)));
    };
    ensure!(holder.session == *one.session.id(), "told of session {}", holder.session);
    ensure!(holder.who == *one.session.who(), "told of {:?}, not {:?}", holder.who, one.session.who());
    ensure!(holder.fence == Some(lease.fence), "told of fence {:?}, not {}", holder.fence, lease.fence);
    ensure!(!holder.held.is_zero() && holder.held <= most, "held for {:?}, taken {most:?} ago", holder.held);
    ensure!(!holder.left.is_zero() && holder.left <= ttl.length(), "{:?} are left", holder.left);
    Ok(format!(
        "held by {} for {} ms, {} ms left",
        holder.who,
        holder.held.as_millis(),
        holder.left.as_millis()
    ))
}

pub(super) async fn busy_tells_how_many_wait(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let holder = ground.party(0)?;
    holder.take(&key).await?;
    let mut waiting = JoinSet::new();
    for (count, party) in ground.parties(3)?.into_iter().enumerate() {
        let ask = Ask::new(key.clone()).wait(PATIENCE);
        waiting.spawn(async move { party.ask(ask).await.map(|lease| lease.fence) });
        ground.until_waiting(&key, count + 1).await?;
    }
    Ok("0, 1, 2, 3 were told as they came".to_owned())
}

pub(super) async fn a_refused_request_leaves_no_trace(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (holder, refused, third) = (ground.party(0)?, ground.party(1)?, ground.party(2)?);
    let lease = holder.take(&key).await?;
    for _ in 0..5 {
        let busy = refused.is_refused(&key).await?;
        ensure!(busy.waiting == 0, "{} wait after a request that did not want to", busy.waiting);
    }
    let waiting = third.backend.show(&key).await?.waiting;
    ensure!(waiting.is_empty(), "in the queue: {waiting:?}");
    holder.release(&lease).await?;
    third.take(&key).await?;
    Ok("nobody in the queue after 5 refusals, and the next to ask got the key".to_owned())
}
