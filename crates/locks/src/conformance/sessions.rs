//! L16 inside one process: what a session's end frees.

use bell_coord::{Ask, Denied};
use tokio::task::JoinSet;

use super::ground::{Done, Ground, PATIENCE, Party, Stop, ensure};

/// More than one commit of any store holds.
const KEYS: usize = 40;

pub(super) async fn the_end_of_a_session_frees_all_it_held(ground: Ground) -> Done {
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let mut leases = Vec::new();
    for number in 0..KEYS {
        leases.push(one.take(&ground.key(&number.to_string())?).await?);
    }
    two.backend.end_session(&one.session).await?;
    for lease in &leases {
        let next = two.take(&lease.key).await?;
        ensure!(next.fence > lease.fence, "fence {} after {}", next.fence, lease.fence);
        let answer = one.renew(lease).await;
        ensure!(answer.is_err(), "an ended session renewed {}", lease.key);
    }
    // Ending what has ended is no failure, and touches nobody.
    one.backend.end_session(&one.session).await?;
    ground.party(2)?.is_refused(&leases[0].key).await?;
    Ok(format!("{KEYS} keys were free"))
}

pub(super) async fn the_end_of_a_session_serves_who_waited(ground: Ground) -> Done {
    let holder = ground.party(0)?;
    let keys = [ground.key("a")?, ground.key("b")?];
    let mut waiting = JoinSet::new();
    for (number, key) in keys.iter().enumerate() {
        holder.take(key).await?;
        let (party, ask) = (ground.party(number)?, Ask::new(key.clone()).wait(PATIENCE));
        waiting.spawn(async move { party.ask(ask).await });
        ground.until_waiting(key, 1).await?;
    }
    ground.handle(1).end_session(&holder.session).await?;
    while let Some(answer) = waiting.join_next().await {
        answer??;
    }
    Ok("a waiter on each of two keys was served".to_owned())
}

pub(super) async fn an_ended_session_gets_nothing_more(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    party.take(&ground.key("b")?).await?;
    party.backend.end_session(&party.session).await?;
    match party.ask(Ask::new(key.clone())).await {
        Err(Denied::Lost(why)) => {
            ground.party(1)?.sees_free(&key).await?;
            Ok(format!("told «lost: {why}»"))
        }
        other => Err(Stop::failed(format!("an ended session asked for a key and got {other:?}"))),
    }
}

pub(super) async fn a_dropped_program_leaves_nothing_behind(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let locks = Party::locks(ground.handle(0).clone())?;
    let held = locks.lock(Ask::new(key.clone())).await?;
    let fence = held.fence();
    drop((held, locks));
    let next = ground.party(1)?.wait_for(&key).await?;
    ensure!(next.fence > fence, "fence {} after {fence}", next.fence);
    Ok("free soon after, with half an hour left of the ttl".to_owned())
}
