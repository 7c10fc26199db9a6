//! A long line for one key: everybody is served, one after the other, as they came.

use bell_core::lock::Fence;
use tokio::task::JoinSet;

use crate::ground::Ground;
use crate::verdict::{Done, Stop, ensure};

pub(super) async fn run(ground: Ground) -> Done {
    let length = ground.many(12, 100);
    let rounds = ground.many(2, 5);
    for round in 0..rounds {
        line(&ground, round, length).await?;
    }
    Ok(format!(
        "{rounds} lines of {length} sessions on two handles: all were served, in the order in which they came"
    ))
}

async fn line(ground: &Ground, round: usize, length: usize) -> Result<(), Stop> {
    let key = ground.key(&format!("line-{round}"))?;
    let other = ground.another().await?;
    let holder = ground.party()?;
    let lease = holder.take(&key).await?;
    let mut waiting = JoinSet::new();
    for number in 0..length {
        let party = if number % 2 == 0 { ground.party()? } else { other.party()? };
        let wanted = key.clone();
        waiting.spawn(async move {
            let lease = party.wait_for(&wanted).await?;
            party.release(&lease).await?;
            Ok::<_, Stop>((number, lease.fence))
        });
        ground.until_waiting(&key, number + 1).await?;
    }
    holder.release(&lease).await?;
    let mut served: Vec<(usize, Fence)> = Vec::new();
    while let Some(done) = waiting.join_next().await {
        served.push(done??);
    }
    served.sort();
    ensure!(served.len() == length, "{} of {length} were served", served.len());
    let in_order = served.windows(2).all(|pair| pair[0].1 < pair[1].1);
    ensure!(in_order, "they were served in another order than they came");
    Ok(())
}
