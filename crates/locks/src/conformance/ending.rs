//! L14 and L15: who may end or extend a lease, and acts that come too late.

use bell_coord::{Denied, Lease};
use bell_core::lock::{Fence, Ttl};
use bell_store::clock::boottime;

use super::ground::{Done, Ground, LOOK_EVERY, PATIENCE, ensure, expects};

/// The lease as somebody who only knows its fence would name it.
fn forged(lease: &Lease) -> Lease {
    Lease::new(lease.key.clone(), lease.mode, lease.fence, lease.ttl, boottime())
}

pub(super) async fn only_the_holder_can_release(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (holder, other) = (ground.party(0)?, ground.party(1)?);
    let lease = holder.take(&key).await?;
    let answer = other.backend.release(&other.session, &forged(&lease)).await;
    let told = expects!(answer, Err(Denied::NotHolder(holders)) => holders, "not the holder");
    ensure!(told.iter().any(|h| h.session == *holder.session.id()), "told of {told:?}");
    other.sees_held(&key, lease.fence).await?;
    Ok("told who holds it".to_owned())
}

pub(super) async fn only_the_holder_can_renew(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (holder, other) = (ground.party(0)?, ground.party(1)?);
    let lease = holder.take(&key).await?;
    let answer = other.renew(&forged(&lease)).await;
    let told = expects!(answer, Err(Denied::NotHolder(holders)) => holders, "not the holder");
    ensure!(told.iter().any(|h| h.session == *holder.session.id()), "told of {told:?}");
    other.sees_held(&key, lease.fence).await?;
    Ok("told who holds it".to_owned())
}

pub(super) async fn a_free_key_is_not_held(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let lease = party.take(&key).await?;
    party.release(&lease).await?;
    expects!(party.renew(&lease).await, Err(Denied::NotHeld) => (), "not held");
    let never = Lease::new(ground.key("never")?, lease.mode, Fence(1), lease.ttl, boottime());
    expects!(party.renew(&never).await, Err(Denied::NotHeld) => (), "not held");
    Ok("renewals of a released and of a never held key".to_owned())
}

pub(super) async fn a_renewal_does_not_bring_back_what_has_run_out(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let lease = party.take_for(&key, Ttl::MIN).await?;
    let give_up = boottime() + PATIENCE;
    while !party.holders(&key).await?.is_empty() {
        ensure!(boottime() < give_up, "a lease of 1 s did not run out");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    expects!(party.renew(&lease).await, Err(Denied::NotHeld) => (), "not held");
    party.sees_free(&key).await?;
    ground.party(1)?.take(&key).await?;
    Ok("refused, and the key stayed free".to_owned())
}

pub(super) async fn a_release_can_be_repeated(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let lease = party.take(&key).await?;
    for _ in 0..3 {
        party.release(&lease).await?;
    }
    party.sees_free(&key).await?;
    Ok("three times the same answer".to_owned())
}

pub(super) async fn a_late_release_leaves_the_successor_alone(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (late, successor) = (ground.party(0)?, ground.party(1)?);
    let old = late.take(&key).await?;
    late.release(&old).await?;
    let new = successor.take(&key).await?;
    for lease in [old.clone(), forged(&old)] {
        // Told or not, it must change nothing.
        let answer = late.backend.release(&late.session, &lease).await;
        ensure!(matches!(answer, Ok(()) | Err(Denied::NotHolder(_))), "answered {answer:?}");
        successor.sees_held(&key, new.fence).await?;
    }
    successor.renew(&new).await?;
    Ok(format!("fence {} stood through late releases of {}", new.fence, old.fence))
}

pub(super) async fn a_late_renewal_leaves_the_successor_alone(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (late, successor) = (ground.party(0)?, ground.party(1)?);
    let old = late.take(&key).await?;
    late.release(&old).await?;
    let new = successor.take(&key).await?;
    for lease in [old.clone(), forged(&old)] {
        expects!(late.renew(&lease).await, Err(Denied::NotHolder(_)) => (), "not the holder");
        successor.sees_held(&key, new.fence).await?;
    }
    Ok(format!("fence {} stood through late renewals of {}", new.fence, old.fence))
}

pub(super) async fn a_late_act_leaves_a_later_lease_of_the_same_session_alone(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let party = ground.party(0)?;
    let old = party.take(&key).await?;
    party.release(&old).await?;
    let new = party.take(&key).await?;
    ensure!(new.fence > old.fence, "fence {} after {}", new.fence, old.fence);
    for lease in [old.clone(), forged(&old)] {
        let answer = party.backend.release(&party.session, &lease).await;
        ensure!(matches!(answer, Ok(()) | Err(Denied::NotHolder(_))), "release answered {answer:?}");
        party.sees_held(&key, new.fence).await?;
        let answer = party.renew(&lease).await;
        ensure!(matches!(answer, Err(Denied::NotHolder(_) | Denied::NotHeld)), "renewal answered {answer:?}");
        party.sees_held(&key, new.fence).await?;
    }
    ground.party(1)?.is_refused(&key).await?;
    Ok(format!("fence {} stood through late acts of {}", new.fence, old.fence))
}
