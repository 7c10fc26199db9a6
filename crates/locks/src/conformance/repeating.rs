//! L23: no answer is no failure, and a repeated request has one outcome.

use std::time::Duration;

use bell_coord::{Ask, Denied};
use bell_core::lock::Ttl;
use bell_store::Kind;

use super::faulty::{Fault, Faulty};
use super::ground::{Done, Ground, Party, Stop, ensure};

const DROPS: u64 = 40;

pub(super) async fn a_request_whose_answer_was_lost_has_one_outcome(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let way = Faulty::over(ground.handle(0));
    let party = Party { backend: way.clone(), ..ground.party(0)? };
    let ask = Ask::new(key.clone());
    way.fail_times(Fault::AnswerLost, 1);
    match party.ask(ask.clone()).await {
        Err(Denied::Unavailable(error)) if error.kind() == Kind::Unknown => {}
        other => return Err(Stop::failed(format!("expected no answer, got {other:?}"))),
    }
    let looker = ground.party(1)?;
    let holders = looker.holders(&key).await?;
    let granted = holders.first().and_then(|holder| holder.fence);
    let granted = granted.ok_or_else(|| Stop::failed("nothing was granted behind the lost answer"))?;
    let lease = party.ask(ask).await?;
    ensure!(lease.fence == granted, "granted as {granted}, and again as {}", lease.fence);
    looker.sees_held(&key, granted).await?;
    party.release(&lease).await?;
    looker.sees_free(&key).await?;
    Ok(format!("granted as {granted}, told as {granted}, free after one release"))
}

pub(super) async fn a_repeated_request_has_one_outcome(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let ask = Ask::new(key.clone());
    let first = party.ask(ask.clone()).await?;
    let (again, at_once) = tokio::join!(party.ask(ask.clone()), party.ask(ask));
    for lease in [again?, at_once?] {
        ensure!(lease.fence == first.fence, "fence {} became {}", first.fence, lease.fence);
    }
    party.sees_held(&key, first.fence).await?;
    Ok(format!("fence {} three times", first.fence))
}

pub(super) async fn no_grant_that_nobody_knows_of_outlives_its_ttl(ground: Ground) -> Done {
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let mut dropped = 0;
    let mut keys = Vec::new();
    for number in 0..DROPS {
        let key = ground.key(&number.to_string())?;
        let ask = Ask::new(key.clone()).ttl(Ttl::MIN);
        // Another moment each time: before it left, on its way, at the commit, just before the answer.
        match tokio::time::timeout(Duration::from_micros(number * 100), one.ask(ask)).await {
            Ok(lease) => one.release(&lease?).await?,
            Err(_) => dropped += 1,
        }
        keys.push(key);
    }
    for key in &keys {
        two.wait_for(key).await?;
    }
    Ok(format!("{dropped} of {DROPS} requests were dropped half-way, every key could be taken"))
}
