//! Fences, over everything that ends a lease and everything that begins anew.

use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_store::info::Scope;

use crate::ground::{Ground, Handle};
use crate::verdict::{Done, Stop, ensure};

const RELEASES: usize = 30;
const SESSIONS: usize = 5;
const REOPENINGS: usize = 4;

pub(super) async fn run(ground: Ground) -> Done {
    let key = ground.key("fenced")?;
    let mut fences = Rising::default();
    let one = ground.handle().clone();
    let other = ground.another().await?;
    for number in 0..ground.many(RELEASES, RELEASES * 20) {
        fences.taken(if number % 2 == 0 { &one } else { &other }, &key).await?;
    }
    // Kept until the end: a session whose last handle is gone ends by itself.
    let mut ended = Vec::new();
    for _ in 0..SESSIONS {
        let party = one.party()?;
        fences.rises(party.take(&key).await?.fence)?;
        party.locks.end_session(&party.session).await?;
        ended.push(party);
    }
    let (first, second) = (one.party()?, other.party()?);
    fences.rises(first.take_for(&key, Ttl::MIN).await?.fence)?;
    fences.rises(second.wait_for(&key).await?.fence)?;
    let broken = first.locks.break_lock(&key, "bell verify looks at fences", "bell verify").await?;
    fences.rises(broken.fence.ok_or_else(|| Stop::failed("a break told no fence"))?)?;
    drop(other);
    let reopenings = if ground.info().scope == Scope::Process { 0 } else { ground.many(REOPENINGS, 40) };
    for _ in 0..reopenings {
        fences.taken(&ground.another().await?, &key).await?;
    }
    Ok(format!(
        "{} fences from {} to {}, over releases, {SESSIONS} ended sessions, an expiry, a break and {reopenings} reopenings",
        fences.count, fences.first, fences.last
    ))
}

/// Fences that were told so far.
struct Rising {
    first: Fence,
    last: Fence,
    count: usize,
}

impl Default for Rising {
    fn default() -> Self {
        Self { first: Fence(0), last: Fence(0), count: 0 }
    }
}

impl Rising {
    fn rises(&mut self, fence: Fence) -> Result<(), Stop> {
        ensure!(fence > self.last, "fence {fence} was granted after {}", self.last);
        if self.count == 0 {
            self.first = fence;
        }
        self.count += 1;
        self.last = fence;
        Ok(())
    }

    /// Takes the key and gives it back, in a session of its own.
    async fn taken(&mut self, handle: &Handle, key: &Key) -> Result<(), Stop> {
        let party = handle.party()?;
        let lease = party.take(key).await?;
        self.rises(lease.fence)?;
        party.release(&lease).await
    }
}
