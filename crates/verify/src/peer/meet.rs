//! Two machines that find each other through the store.
//!
//! Whoever comes first takes the one seat and keeps it warm. Whoever comes second takes the seat away and leaves a
//! greeting for the first in the same commit: nobody can come between.

use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Expect, Name, Outcome, Stamp, Txn, Watch, Write};
use serde::{Deserialize, Serialize};

use crate::site::Site;
use crate::tidy::PEER_SCOPE;
use crate::verdict::Stop;

/// A seat that was not kept warm for this long is that of a machine that is gone.
const COLD: Duration = Duration::from_secs(10);
const WARM_EVERY: Duration = Duration::from_secs(2);

/// Who waits on the seat.
#[derive(Serialize, Deserialize)]
struct Seat {
    scope: String,
    /// On the store's clock.
    warm_ms: u64,
}

/// Two that have met.
pub(super) struct Met {
    /// Where they go on, which belongs to the first.
    pub(super) scope: String,
    pub(super) side: Side,
}

/// Which of the two this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    First,
    Second,
}

/// Waits for another machine that does the same. `None`: none came in this time.
pub(super) async fn meet(site: &Site, wait: Duration) -> Result<Option<Met>, Stop> {
    let give_up = boottime() + wait;
    let (seat, greeting) = (seat(), greeting(site.scope()));
    let store = &site.handle().store;
    loop {
        let seen = store.read(&[seat.clone(), greeting.clone()]).await?;
        if seen.version(greeting.as_str()) != 0 {
            return Ok(Some(Met { scope: site.scope().to_owned(), side: Side::First }));
        }
        if boottime() >= give_up {
            return Ok(None);
        }
        let found =
            seen.records.get(&seat).and_then(|record| serde_json::from_slice::<Seat>(&record.value).ok());
        let expect = vec![(seat.clone(), Expect::seen(seen.version(seat.as_str())))];
        let warm = |seat: &Seat| seen.now.as_ms().saturating_sub(seat.warm_ms) < ms(COLD);
        match found.filter(|found| found.scope != site.scope()).filter(warm) {
            Some(first) => {
                let greet = (self::greeting(&first.scope), Write::Put(b"here".to_vec(), Stamp::New));
                let writes = vec![(seat.clone(), Write::Delete), greet];
                if let Outcome::Committed(_) = store.commit(Txn { expect, writes, at: None }).await? {
                    return Ok(Some(Met { scope: first.scope, side: Side::Second }));
                }
            }
            None => {
                let mine = Seat { scope: site.scope().to_owned(), warm_ms: seen.now.as_ms() };
                let text = serde_json::to_vec(&mine).map_err(std::io::Error::from)?;
                let writes = vec![(seat.clone(), Write::Put(text, Stamp::New))];
                if let Outcome::Committed(_) = store.commit(Txn { expect, writes, at: None }).await? {
                    let watch = Watch::Names(vec![(greeting.clone(), 0)]);
                    let pause = WARM_EVERY.min(give_up.saturating_sub(boottime()));
                    // Greeted, or time to keep the seat warm.
                    let _ = tokio::time::timeout(pause, store.changed(&watch)).await;
                }
            }
        }
    }
}

/// Leaves nothing of this machine at the meeting place.
pub(super) async fn leave(site: &Site) {
    let store = &site.handle().store;
    let leave = async {
        let (seat, greeting) = (seat(), greeting(site.scope()));
        let seen = store.read(std::slice::from_ref(&seat)).await?;
        let mut txn = Txn { writes: vec![(greeting, Write::Delete)], ..Txn::default() };
        if let Some(record) = seen.records.get(&seat) {
            let found = serde_json::from_slice::<Seat>(&record.value).ok();
            if found.is_none_or(|found| found.scope == site.scope()) {
                txn.expect.push((seat.clone(), Expect::At(record.version)));
                txn.writes.push((seat, Write::Delete));
            }
        }
        store.commit(txn).await
    };
    // A store that does not answer keeps a cold seat, which the next pair takes away.
    let _ = tokio::time::timeout(WARM_EVERY, leave).await;
}

fn seat() -> Name {
    format!("@{PEER_SCOPE}/seat").into()
}

fn greeting(scope: &str) -> Name {
    format!("@{PEER_SCOPE}/greeting/{scope}").into()
}

fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
