//! The four ways to use a lock, and use without async.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use bell_locks::guard::file;
use bell_locks::patterns::{Fenced, FencedError, PerItem, Tick, TtlHold, TwoLayer};
use bell_locks::{Ask, Denied, Identity, Key, Locks};

const PATIENCE: Duration = Duration::from_secs(20);

fn key() -> Key {
    Key::parse("job:a").unwrap()
}

async fn two_programs() -> (Locks, Locks) {
    let one = Locks::open("memory:").await.unwrap();
    let two = Locks::new(one.backend().clone(), Identity::default()).unwrap();
    (one, two)
}

#[tokio::test]
async fn an_item_is_held_while_its_work_runs_and_free_afterwards() {
    let (one, two) = two_programs().await;
    let (item, rival) = (PerItem::new(one), PerItem::new(two));
    let work = item.run(key(), |held| {
        assert_eq!(held.lease().ttl.length(), Duration::from_secs(60));
        async { rival.take(key()).await.err() }
    });
    assert!(matches!(work.await.unwrap(), Some(Denied::Busy(_))));
    rival.take(key()).await.unwrap();
}

#[tokio::test]
async fn nobody_ticks_twice_in_one_window_not_even_its_leader() {
    let (one, two) = two_programs().await;
    let tick = |locks: &Locks| {
        TtlHold::new(locks.backend().clone(), Identity::default(), key(), Duration::from_secs(1)).unwrap()
    };
    let (first, second) = (tick(&one), tick(&two));
    let Tick::Lead(lease) = first.tick().await.unwrap() else { panic!("the window is open") };
    assert!(matches!(first.tick().await.unwrap(), Tick::Skip(_)));
    assert!(matches!(second.tick().await.unwrap(), Tick::Skip(_)));
    // The leader is gone, its window is not: only its end opens the next.
    drop((first, one));
    let next = two.lock(Ask::new(key()).wait(PATIENCE)).await.unwrap();
    assert!(next.fence() > lease.fence);
}

#[tokio::test]
async fn a_fenced_write_is_not_tried_once_the_lock_is_lost() {
    let (one, two) = two_programs().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let fenced = Fenced::new(one.lock(Ask::new(key())).await.unwrap());
    fenced.write(|fence| file::write(&path, fence, b"mine")).unwrap();
    two.backend().break_lock(&key(), "test", "test").await.unwrap();
    fenced.held().lost().await;
    let refused = fenced.write(|fence| file::write(&path, fence, b"stale"));
    assert!(matches!(refused, Err(FencedError::Lost(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[tokio::test]
async fn tasks_of_one_process_exclude_each_other_although_they_share_a_session() {
    let (one, _) = two_programs().await;
    let both = TwoLayer::new(one);
    let held = both.lock(key(), Ask::new(key())).await.unwrap();
    assert!(matches!(both.lock(key(), Ask::new(key())).await, Err(Denied::Busy(_))));
    let waiting = {
        let both = both.clone();
        tokio::spawn(async move {
            both.lock(key(), Ask::new(key()).wait(PATIENCE)).await.map(|h| h.held().fence())
        })
    };
    let before = held.held().fence();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap() > before);
}

#[test]
fn a_program_without_async_takes_and_gives_back() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/bell.db", folder.path().display());
    let (one, two) =
        (bell_locks::blocking::Locks::open(&url).unwrap(), bell_locks::blocking::Locks::open(&url).unwrap());
    let held = one.lock(Ask::new(key())).unwrap();
    assert!(matches!(two.lock(Ask::new(key())), Err(Denied::Busy(_))));
    held.check().unwrap();
    held.release().unwrap();
    two.lock(Ask::new(key())).unwrap().release().unwrap();
    one.end().unwrap();
}
