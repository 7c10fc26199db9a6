//! What comes too late, or from somebody else, changes nothing.

use bell_coord::{Denied, Lease};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_store::clock::boottime;
use bell_store::txn::MAX_LAG;

use crate::ground::{Ground, LOOK_EVERY, PATIENCE, Party};
use crate::verdict::{Done, Stop, ensure};

pub(super) async fn run(ground: Ground) -> Done {
    let (late, successor) = (ground.party()?, ground.another().await?.party()?);
    let mut acts = 0;
    for round in 0..ground.many(10, 200) {
        let key = ground.key(&format!("late-{round}"))?;
        let old = late.take(&key).await?;
        late.release(&old).await?;
        let new = successor.take(&key).await?;
        ensure!(new.fence > old.fence, "fence {} after {}", new.fence, old.fence);
        // Its own lease as it remembers it, one that it has only the number of, and the successor's.
        for lease in [old.clone(), forged(&old), forged(&new)] {
            acts += too_late(&late, &lease, &successor, &new).await?;
        }
        successor.release(&new).await?;
        late.release(&old).await?;
    }
    resurrected(&ground, &late, &successor).await?;
    Ok(format!(
        "{acts} late releases and renewals left every later lease alone; what had run out was not brought back"
    ))
}

/// A release and a renewal that must not touch the lease of the successor.
async fn too_late(late: &Party, lease: &Lease, successor: &Party, new: &Lease) -> Result<u32, Stop> {
    let released = late.locks.release(&late.session, lease).await;
    ensure!(
        matches!(released, Ok(()) | Err(Denied::NotHolder(_))) || is_unavailable(&released),
        "a late release was answered with {released:?}"
    );
    successor.sees_held(&new.key, new.fence).await?;
    let renewed = late.renew(lease).await;
    ensure!(renewed.is_err(), "a late renewal was granted");
    if let Err(Denied::Unavailable(error)) = renewed {
        return Err(error.into());
    }
    successor.sees_held(&new.key, new.fence).await?;
    Ok(2)
}

/// A lease that ran out stays over.
async fn resurrected(ground: &Ground, late: &Party, looker: &Party) -> Result<(), Stop> {
    let key: Key = ground.key("run-out")?;
    let lease = late.take_for(&key, Ttl::MIN).await?;
    let give_up = boottime() + PATIENCE;
    while !looker.holders(&key).await?.is_empty() {
        ensure!(boottime() < give_up, "a lease of 1 s did not run out");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // A renewal that was decided just before the end may arrive just after it; this one can't.
    tokio::time::sleep(MAX_LAG + LOOK_EVERY).await;
    match late.renew(&lease).await {
        Err(Denied::NotHeld | Denied::NotHolder(_)) => {}
        Err(other) => return Err(other.into()),
        Ok(_) => return Err(Stop::failed("a renewal brought back a lease that had run out")),
    }
    looker.sees_free(&key).await
}

fn forged(lease: &Lease) -> Lease {
    Lease::new(lease.key.clone(), lease.mode, lease.fence, lease.ttl, boottime())
}

fn is_unavailable<T>(answer: &Result<T, Denied>) -> bool {
    matches!(answer, Err(Denied::Unavailable(_)))
}
