//! Requests for several keys that overlap: each gets all of its keys or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bell_coord::{Ask, Denied};
use bell_core::key::Key;
use bell_store::clock::boottime;
use tokio::task::JoinSet;

use crate::figures::grouped;
use crate::ground::{Ground, PATIENCE, Party};
use crate::verdict::{Done, Stop, ensure};

/// Keys that lie in a ring; each session wants three neighbours.
const RING: usize = 6;
const WANTED: usize = 3;

pub(super) async fn run(ground: Ground) -> Done {
    no_partial_grant(&ground).await?;
    let keys =
        (0..RING).map(|number| ground.key(&format!("ring/{number}"))).collect::<Result<Vec<_>, _>>()?;
    let taken: Arc<Vec<AtomicBool>> = Arc::new((0..RING).map(|_| AtomicBool::new(false)).collect());
    let grants = Arc::new(AtomicU64::new(0));
    let (until, other) = (ground.until(Duration::from_secs(1)), ground.another().await?);
    let mut sessions = JoinSet::new();
    for number in 0..RING {
        let party = if number % 2 == 0 { ground.party()? } else { other.party()? };
        let places: Vec<usize> = (0..WANTED).map(|step| (number + step) % RING).collect();
        let wanted: Vec<Key> = places.iter().map(|place| keys[*place].clone()).collect();
        let (taken, grants) = (Arc::clone(&taken), Arc::clone(&grants));
        sessions.spawn(async move {
            while boottime() < until {
                turn(&party, &wanted, &places, &taken).await?;
                grants.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Stop>(())
        });
    }
    while let Some(done) = sessions.join_next().await {
        done??;
    }
    Ok(format!(
        "a request of {WANTED} keys with one taken got none of them; {RING} sessions got theirs {} times, none of which overlapped",
        grouped(grants.load(Ordering::Relaxed))
    ))
}

async fn no_partial_grant(ground: &Ground) -> Result<(), Stop> {
    let keys = ["a", "b", "c"].map(|name| ground.key(name));
    let [a, b, c] = keys;
    let (a, b, c) = (a?, b?, c?);
    let (holder, refused) = (ground.party()?, ground.another().await?.party()?);
    let lease = holder.take(&b).await?;
    let all = Ask::all(vec![a.clone(), b.clone(), c.clone()]);
    match refused.locks.acquire(&refused.session, &all).await {
        Err(Denied::Busy(_)) => {}
        Err(other) => return Err(other.into()),
        Ok(leases) => {
            return Err(Stop::failed(format!("{} of 3 keys were granted while one was taken", leases.len())));
        }
    }
    holder.sees_free(&a).await?;
    holder.sees_free(&c).await?;
    holder.release(&lease).await
}

async fn turn(party: &Party, wanted: &[Key], places: &[usize], taken: &[AtomicBool]) -> Result<(), Stop> {
    let ask = Ask::all(wanted.to_vec()).wait(PATIENCE);
    let leases = party.locks.acquire(&party.session, &ask).await?;
    ensure!(leases.len() == wanted.len(), "{} of {} keys were granted", leases.len(), wanted.len());
    for place in places {
        ensure!(!taken[*place].swap(true, Ordering::SeqCst), "two sessions had a key at once");
    }
    tokio::task::yield_now().await;
    for place in places {
        taken[*place].store(false, Ordering::SeqCst);
    }
    for lease in &leases {
        party.release(lease).await?;
    }
    Ok(())
}
