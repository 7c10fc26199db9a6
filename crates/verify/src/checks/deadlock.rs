//! Sessions that wait for each other in a ring: one is refused, the others are served.

use bell_coord::{Ask, Denied};
use tokio::task::JoinSet;

use crate::ground::{Ground, PATIENCE};
use crate::verdict::{Done, Stop, ensure};

pub(super) async fn run(ground: Ground) -> Done {
    let sizes = if ground.many(0, 1) == 0 { [2, 3, 5].as_slice() } else { &[2, 2, 3, 3, 5, 8, 13, 21] };
    for (round, size) in sizes.iter().enumerate() {
        ring(&ground, round, *size).await?;
    }
    Ok(format!(
        "rings of {sizes:?} sessions: in each, the one that would have closed it was told the cycle, the others went on"
    ))
}

async fn ring(ground: &Ground, round: usize, size: usize) -> Result<(), Stop> {
    let other = ground.another().await?;
    let mut members = Vec::new();
    for number in 0..size {
        let party = if number % 2 == 0 { ground.party()? } else { other.party()? };
        let key = ground.key(&format!("ring-{round}/{number}"))?;
        let lease = party.take(&key).await?;
        members.push((party, key, lease));
    }
    let mut waiting = JoinSet::new();
    for number in 0..size - 1 {
        let (party, _, own) = members[number].clone();
        let wanted = members[number + 1].1.clone();
        let ask = Ask::new(wanted.clone()).wait(PATIENCE);
        waiting.spawn(async move {
            let next = party.ask(ask).await?;
            party.release(&next).await?;
            party.release(&own).await
        });
        ground.until_waiting(&wanted, 1).await?;
    }
    let (last, _, own) = &members[size - 1];
    match last.ask(Ask::new(members[0].1.clone()).wait(PATIENCE)).await {
        Err(Denied::Deadlock(cycle)) => {
            ensure!(
                cycle.steps().len() == size,
                "told a cycle of {} in a ring of {size}",
                cycle.steps().len()
            );
        }
        Err(Denied::Unavailable(error)) => return Err(error.into()),
        Err(other) => return Err(Stop::failed(format!("who closed a ring of {size} was told: {other}"))),
        Ok(_) => {
            return Err(Stop::failed(format!("who closed a ring of {size} was granted a key that is held")));
        }
    }
    last.release(own).await?;
    while let Some(served) = waiting.join_next().await {
        served??;
    }
    Ok(())
}
