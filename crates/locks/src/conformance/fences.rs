//! L3: every grant has a greater fence than any before it.

use bell_coord::Ask;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};

use super::ground::{Done, Ground, Party, Stop, ensure};

const GRANTS: usize = 50;

fn rises(before: Fence, after: Fence) -> Result<Fence, Stop> {
    ensure!(after > before, "fence {after} after {before}");
    Ok(after)
}

/// Takes a key and gives it back.
async fn pass_through(party: &Party, key: &Key) -> Result<Fence, Stop> {
    let lease = party.take(key).await?;
    party.release(&lease).await?;
    Ok(lease.fence)
}

pub(super) async fn a_fence_rises_over_release(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let parties = ground.parties(3)?;
    let mut last = Fence(0);
    for grant in 0..GRANTS {
        last = rises(last, pass_through(&parties[grant % 3], &key).await?)?;
    }
    Ok(format!("{GRANTS} grants, the last with fence {last}"))
}

pub(super) async fn a_fence_rises_over_expiry(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let first = one.take_for(&key, Ttl::MIN).await?;
    let second = two.wait_for(&key).await?;
    rises(first.fence, second.fence)?;
    Ok(format!("{} then {}", first.fence, second.fence))
}

pub(super) async fn a_fence_rises_over_a_break(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let first = one.take(&key).await?;
    let broken = two.backend.break_lock(&key, "conformance", "the suite").await?;
    let raised = broken.fence.ok_or_else(|| Stop::failed("the break tells no fence"))?;
    rises(first.fence, raised)?;
    let second = two.take(&key).await?;
    rises(raised, second.fence)?;
    Ok(format!("{}, broken at {raised}, then {}", first.fence, second.fence))
}

pub(super) async fn a_fence_rises_over_the_end_of_a_session(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let mut last = Fence(0);
    for number in 0..10 {
        let party = ground.party(number)?;
        last = rises(last, party.take(&key).await?.fence)?;
        party.backend.end_session(&party.session).await?;
    }
    Ok(format!("10 sessions, the last with fence {last}"))
}

pub(super) async fn shared_grants_have_rising_fences_too(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let mut last = Fence(0);
    let parties = ground.parties(5)?;
    for party in &parties {
        last = rises(last, party.ask(Ask::new(key.clone()).shared()).await?.fence)?;
    }
    Ok(format!("{} share the key, the last with fence {last}", parties.len()))
}

pub(super) async fn a_fence_rises_over_reopening(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let mut last = pass_through(&ground.party(0)?, &key).await?;
    let mut ground = ground;
    for _ in 0..3 {
        ground = ground.reopened().await?;
        last = rises(last, pass_through(&ground.party(0)?, &key).await?)?;
    }
    Ok(format!("opened four times, the last fence is {last}"))
}
