//! Requests that are repeated, and requests that nobody waits for any more.

use std::time::Duration;

use bell_coord::Ask;
use bell_core::lock::Ttl;

use crate::ground::Ground;
use crate::verdict::{Done, Stop, ensure};

pub(super) async fn run(ground: Ground) -> Done {
    let (one, two) = (ground.party()?, ground.another().await?.party()?);
    let key = ground.key("repeated")?;
    let ask = Ask::new(key.clone());
    let first = one.ask(ask.clone()).await?;
    let (again, at_once) = tokio::join!(one.ask(ask.clone()), one.ask(ask));
    for lease in [again?, at_once?] {
        ensure!(
            lease.fence == first.fence,
            "a repeated request got fence {} after {}",
            lease.fence,
            first.fence
        );
    }
    one.release(&first).await?;
    two.sees_free(&key).await?;

    let requests = ground.many(30, 300);
    let mut given_up = 0;
    for number in 0..requests {
        let ask = Ask::new(ground.key(&number.to_string())?).ttl(Ttl::MIN);
        // Another moment each time: before it left, on its way, at the commit, just before the answer.
        let patience = Duration::from_micros(number as u64 % 50 * 100);
        match tokio::time::timeout(patience, one.ask(ask)).await {
            Ok(lease) => one.release(&lease?).await?,
            Err(_) => given_up += 1,
        }
    }
    for number in 0..requests {
        let key = ground.key(&number.to_string())?;
        let lease = two.wait_for(&key).await.map_err(|stop| Stop {
            why: format!("a request that was given up still had {key}: {}", stop.why),
            ..stop
        })?;
        two.release(&lease).await?;
    }
    Ok(format!(
        "a request sent three times got fence {} three times; of {requests} requests {given_up} were given up half-way, \
         and each of their keys could be taken",
        first.fence
    ))
}
