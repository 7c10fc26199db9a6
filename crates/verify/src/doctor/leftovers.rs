//! What lies in a store: live locks, what dead sessions left, long queues, leases that run out unrenewed.

use std::sync::Arc;

use bell_coord::{Coord, Denied};
use bell_core::inspect::LockState;
use bell_core::session::Session;
use bell_store::info::Limits;
use bell_store::{Name, Record, Store, Timestamp};
use serde::Serialize;

/// Where sessions and locks of the root scope lie.
const SESSIONS: &str = "session/";
const LOCKS: &str = "lock/";

/// Pages of each kind that are looked at. More than this many thousand records are not counted, only said
/// to be more.
const MAX_PAGES: usize = 20;

/// This many waiters for one key are worth a word.
pub(super) const LONG_QUEUE: usize = 16;

/// What lies in the root scope of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Leftovers {
    /// Keys that are held or waited for.
    pub locks: usize,
    /// Records of locks that nobody holds or waits for any more.
    pub stale_locks: usize,
    /// Sessions that live.
    pub sessions: usize,
    /// Sessions that have run out, or whose process died, and that nobody has cleared away yet.
    pub dead_sessions: usize,
    /// Keys with less than a third of their ttl left: whoever keeps a lease renews it before that.
    pub running_out: Vec<String>,
    /// The longest queue, if it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_queue: Option<LongQueue>,
    /// There are more records than were looked at.
    pub more: bool,
}

/// A key that many wait for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LongQueue {
    /// The key.
    pub key: String,
    /// How many wait.
    pub waiting: usize,
}

/// Looks at what lies in a store, without touching it.
pub(super) async fn leftovers(store: &Arc<dyn Store>) -> Result<Leftovers, Denied> {
    let mut found = Leftovers::default();
    each_page(store, SESSIONS, &mut found.more, |name, record, now| {
        if is_dead(store, name, record, now) { found.dead_sessions += 1 } else { found.sessions += 1 }
    })
    .await?;
    let mut records = 0;
    each_page(store, LOCKS, &mut found.more, |_, _, _| records += 1).await?;
    let coord = Coord::new(Arc::clone(store));
    let mut after = None;
    for _ in 0..MAX_PAGES {
        let page = coord.list("", after.as_ref(), Limits::CONTRACT.page).await?;
        page.locks.iter().for_each(|lock| found.take_in(lock));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    // What has ended since the first count is not left over.
    found.stale_locks = usize::saturating_sub(records, found.locks);
    Ok(found)
}

impl Leftovers {
    fn take_in(&mut self, lock: &LockState) {
        self.locks += 1;
        let longest = self.longest_queue.as_ref().map_or(LONG_QUEUE - 1, |queue| queue.waiting);
        if lock.waiting.len() > longest {
            self.longest_queue = Some(LongQueue { key: lock.key.to_string(), waiting: lock.waiting.len() });
        }
        if lock.holders.iter().any(|holder| holder.left < holder.ttl.length() / 3) {
            self.running_out.push(lock.key.to_string());
        }
    }
}

async fn each_page(
    store: &Arc<dyn Store>,
    prefix: &str,
    more: &mut bool,
    mut visit: impl FnMut(&Name, &Record, Timestamp),
) -> Result<(), Denied> {
    let mut from = String::new();
    for _ in 0..MAX_PAGES {
        let page = store.scan(prefix, &from, Limits::CONTRACT.page).await?;
        page.records.iter().for_each(|(name, record)| visit(name, record, page.now));
        match page.records.keys().next_back() {
            Some(last) if page.more => from = format!("{last}\u{1}"),
            _ => return Ok(()),
        }
    }
    *more = true;
    Ok(())
}

/// A record that can't be read is a newer program's, which knows better.
fn is_dead(store: &Arc<dyn Store>, name: &Name, record: &Record, now: Timestamp) -> bool {
    let is_over = serde_json::from_slice::<Session>(&record.value).is_ok_and(|session| !session.is_live(now));
    let id = name.as_str().strip_prefix(SESSIONS).unwrap_or_default();
    is_over || store.presence().is_gone(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_core::key::Key;
    use bell_core::lock::Ttl;
    use bell_core::session::Identity;
    use bell_locks::{Ask, Keep, LockBackend, Session, locks::StoreLocks};
    use bell_store::memory::Memory;
    use std::time::Duration;

    #[tokio::test]
    async fn locks_and_sessions_are_counted_and_the_dead_told_from_the_living() {
        let (store, clock) = Memory::with_manual_clock();
        let store: Arc<dyn Store> = Arc::new(store);
        let locks = StoreLocks::new(Arc::clone(&store));
        let session = Session::new(Identity::default(), Keep::Detached).unwrap();
        for (key, ttl) in [("a://short", 2), ("a://long", 600)] {
            let ask = Ask::new(Key::parse(key).unwrap()).ttl(Ttl::new(Duration::from_secs(ttl)).unwrap());
            locks.acquire(&session, &ask).await.unwrap();
        }
        let fresh = leftovers(&store).await.unwrap();
        assert_eq!((fresh.locks, fresh.stale_locks, fresh.running_out.len()), (2, 0, 0), "{fresh:?}");
        clock.advance(Duration::from_millis(1_500));
        let late = leftovers(&store).await.unwrap();
        assert_eq!(late.running_out, ["a://short"]);
        clock.advance(Duration::from_secs(5));
        let later = leftovers(&store).await.unwrap();
        assert_eq!((later.locks, later.stale_locks), (1, 1), "{later:?}");
    }
}
