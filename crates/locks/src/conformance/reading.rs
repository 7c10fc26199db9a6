//! L18: looking never disturbs acquiring.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bell_core::lock::Fence;
use tokio::task::JoinSet;

use super::ground::{Done, Ground, Stop, ensure};

const ROUNDS: usize = 40;
const READERS: usize = 4;

pub(super) async fn reading_disturbs_no_acquiring(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let (done, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let (backend, key) = (Arc::clone(ground.handle(number)), key.clone());
        let (done, looks) = (Arc::clone(&done), Arc::clone(&looks));
        readers.spawn(async move {
            while !done.load(Ordering::SeqCst) {
                let holders = backend.is_held(&key).await?;
                ensure!(holders.len() <= 1, "{} hold an exclusive key", holders.len());
                backend.show(&key).await?;
                looks.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
            Ok::<_, Stop>(())
        });
    }
    let parties = ground.parties(3)?;
    let mut last = Fence(0);
    for round in 0..ROUNDS {
        let party = &parties[round % 3];
        let lease = party.take(&key).await?;
        ensure!(lease.fence > last, "fence {} after {last}", lease.fence);
        last = lease.fence;
        party.sees_held(&key, lease.fence).await?;
        party.release(&lease).await?;
        party.sees_free(&key).await?;
    }
    done.store(true, Ordering::SeqCst);
    while let Some(reader) = readers.join_next().await {
        reader??;
    }
    Ok(format!("{ROUNDS} grants during {} looks", looks.load(Ordering::SeqCst)))
}

pub(super) async fn a_listing_shows_what_is_held_and_nothing_else(ground: Ground) -> Done {
    let party = ground.party(0)?;
    let mut held = BTreeSet::new();
    for number in 0..5 {
        let key = ground.key(&format!("held/{number}"))?;
        held.insert((key.clone(), party.take(&key).await?.fence));
        let given_back = party.take(&ground.key(&format!("free/{number}"))?).await?;
        party.release(&given_back).await?;
    }
    let listed = ground.handle(1).list(ground.prefix()).await?;
    let fences = |lock: &bell_core::inspect::LockState| {
        lock.holders.iter().filter_map(|h| Some((lock.key.clone(), h.fence?))).collect::<Vec<_>>()
    };
    let listed: BTreeSet<_> = listed.iter().flat_map(fences).collect();
    ensure!(listed == held, "listed {listed:?}, held are {held:?}");
    Ok(format!("{} held, {} given back", held.len(), held.len()))
}
