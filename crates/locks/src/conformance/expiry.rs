//! L9 and a part of L12: a lease lasts for its ttl, no longer and no shorter.

use std::time::Duration;

use bell_core::lock::Ttl;
use bell_store::clock::boottime;

use super::ground::{Done, Ground, LOOK_EVERY, PATIENCE, ensure, seconds};

pub(super) async fn a_lease_ends_by_itself_and_not_early(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let sent = boottime();
    let first = one.take_for(&key, seconds(2)?).await?;
    let second = two.wait_for(&key).await?;
    let granted = boottime();
    ensure!(granted >= first.deadline, "granted to another while the holder relied on it");
    ensure!(second.fence > first.fence, "fence {} after {}", second.fence, first.fence);
    Ok(format!("a lease of 2,000 ms was free after {} ms", (granted - sent).as_millis()))
}

pub(super) async fn what_has_run_out_is_free_at_once(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let lease = one.take_for(&key, Ttl::MIN).await?;
    let give_up = boottime() + PATIENCE;
    while !two.holders(&key).await?.is_empty() {
        ensure!(boottime() < give_up, "a lease of 1 s is still there after {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    ensure!(boottime() >= lease.deadline, "shown as free while the holder relied on it");
    two.take(&key).await?;
    Ok("shown as free, then taken without waiting; nobody had to sweep".to_owned())
}

pub(super) async fn a_ttl_out_of_bounds_is_refused(ground: Ground) -> Done {
    let day = Duration::from_secs(24 * 3_600);
    let ms = Duration::from_millis(1);
    for length in [Duration::ZERO, Duration::from_secs(1) - ms, 7 * day + ms, 365 * day] {
        ensure!(Ttl::new(length).is_err(), "a ttl of {length:?} was accepted");
    }
    ensure!(Ttl::DEFAULT.length() == Duration::from_secs(1_800), "the default is {:?}", Ttl::DEFAULT);
    let party = ground.party(0)?;
    for (name, ttl) in [("shortest", Ttl::MIN), ("longest", Ttl::MAX)] {
        let lease = party.take_for(&ground.key(name)?, ttl).await?;
        ensure!(lease.ttl == ttl, "asked for {ttl:?}, got {:?}", lease.ttl);
    }
    Ok("1 s and 7 days are granted, 999 ms and 7 days and 1 ms are not".to_owned())
}

pub(super) async fn a_renewal_extends_from_now(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let first = one.take_for(&key, seconds(3)?).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sent = boottime();
    let renewed = one.renew(&first).await?;
    ensure!(renewed.fence == first.fence, "a renewal changed fence {} to {}", first.fence, renewed.fence);
    ensure!(renewed.deadline > first.deadline, "the holder's deadline did not move");
    two.wait_for(&key).await?;
    let granted = boottime();
    ensure!(granted >= renewed.deadline, "granted to another while the holder relied on the renewal");
    Ok(format!("a lease of 3,000 ms was free {} ms after its renewal", (granted - sent).as_millis()))
}
