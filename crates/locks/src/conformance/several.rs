//! L7: several keys, all or nothing.

use bell_coord::{Ask, Denied};
use bell_core::key::Key;
use tokio::task::JoinSet;

use super::ground::{Done, Ground, PATIENCE, Stop, ensure, expects};

const TASKS: usize = 8;
const ROUNDS: usize = 6;
const PAIRS: usize = 40;

fn all(keys: &[Key]) -> Ask {
    Ask::all(keys.to_vec())
}

pub(super) async fn several_keys_are_granted_together_or_not_at_all(ground: Ground) -> Done {
    let keys = [ground.key("a")?, ground.key("b")?, ground.key("c")?];
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let in_the_way = one.take(&keys[1]).await?;
    let answer = two.backend.acquire(&two.session, &all(&keys)).await;
    let busy = expects!(answer, Err(Denied::Busy(busy)) => busy, "busy");
    ensure!(busy.key == keys[1], "told that {} is busy", busy.key);
    one.sees_free(&keys[0]).await?;
    one.sees_free(&keys[2]).await?;
    one.release(&in_the_way).await?;
    let leases = two.backend.acquire(&two.session, &all(&keys)).await?;
    let granted: Vec<&Key> = leases.iter().map(|lease| &lease.key).collect();
    ensure!(granted == keys.iter().collect::<Vec<_>>(), "granted {granted:?}");
    for lease in &leases {
        one.is_refused(&lease.key).await?;
        two.release(lease).await?;
    }
    Ok("none of three while one was held, then all three".to_owned())
}

pub(super) async fn opposite_orders_never_deadlock(ground: Ground) -> Done {
    let keys = [ground.key("a")?, ground.key("b")?, ground.key("c")?];
    let mut tasks = JoinSet::new();
    for (number, party) in ground.parties(TASKS)?.into_iter().enumerate() {
        let mut keys = keys.to_vec();
        keys.rotate_left(number % 3);
        if number % 2 == 0 {
            keys.reverse();
        }
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                // As given, not in canonical order: the backend has to bring it in order.
                let ask = Ask { keys: keys.clone(), ..Ask::new(keys[0].clone()) }.wait(PATIENCE * 2);
                for lease in party.backend.acquire(&party.session, &ask).await? {
                    party.release(&lease).await?;
                }
            }
            Ok::<_, Stop>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(format!("{TASKS} tasks in 6 orders, {ROUNDS} rounds each"))
}

pub(super) async fn no_partial_grant_is_ever_visible(ground: Ground) -> Done {
    let party = ground.party(0)?;
    let taking = {
        let ground = ground.clone();
        tokio::spawn(async move {
            for round in 0..PAIRS {
                let pair = [ground.key(&format!("{round}/a"))?, ground.key(&format!("{round}/b"))?];
                party.backend.acquire(&party.session, &all(&pair)).await?;
            }
            Ok::<_, Stop>(party)
        })
    };
    let mut looks = 0;
    while !taking.is_finished() {
        let seen = ground.handle(1).list(ground.prefix()).await?;
        let held = seen.iter().filter(|lock| !lock.holders.is_empty()).count();
        // Nothing is given back meanwhile, so half a pair would make the sum odd.
        ensure!(held.is_multiple_of(2), "{held} keys of pairs were seen as held");
        looks += 1;
        tokio::task::yield_now().await;
    }
    let _party = taking.await??;
    Ok(format!("{PAIRS} pairs taken, {looks} looks meanwhile"))
}
