//! The library as a program uses it, on every built-in store.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::io::Write;
use std::time::Duration;

use bell_locks::{Ask, Denied, Key, Locks, Ttl};

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn ask(text: &str) -> Ask {
    Ask::new(key(text))
}

const PATIENCE: Duration = Duration::from_secs(20);

/// One store, opened by several programs.
async fn two_programs(url: &str) -> (Locks, Locks) {
    if url == "memory:" {
        let one = Locks::open(url).await.unwrap();
        let two = Locks::new(one.backend().clone(), bell_locks::locks::this_process()).unwrap();
        return (one, two);
    }
    (Locks::open(url).await.unwrap(), Locks::open(url).await.unwrap())
}

/// Notices that the machine gave this process no time, or kept it waiting for the disk.
struct Stall {
    stop: std::sync::mpsc::Sender<()>,
    watch: std::thread::JoinHandle<Duration>,
}

impl Stall {
    fn watch() -> Self {
        const STEP: Duration = Duration::from_millis(20);
        let (stop, stopped) = std::sync::mpsc::channel();
        let mut disk = tempfile::tempfile().unwrap();
        let watch = std::thread::spawn(move || {
            let (mut longest, mut last) = (Duration::ZERO, bell_store::clock::boottime());
            while stopped.recv_timeout(STEP).is_err() {
                disk.write_all(b".").and_then(|()| disk.sync_data()).unwrap();
                let now = bell_store::clock::boottime();
                longest = longest.max(now - last);
                last = now;
            }
            longest.max(bell_store::clock::boottime() - last)
        });
        Self { stop, watch }
    }

    fn longest(self) -> Duration {
        self.stop.send(()).unwrap();
        self.watch.join().unwrap()
    }
}

macro_rules! on_every_store {
    ($($(#[$doc:meta])* async fn $name:ident($url:ident: &str) $body:block)*) => {
        mod body {
            use super::*;
            $(pub(super) async fn $name($url: &str) $body)*
        }
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::body::$name("memory:").await })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::body::$name(&format!("sqlite:{}/bell.db", folder.path().display())).await
            })*
        }
        mod file {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::body::$name(&format!("file:{}/locks", folder.path().display())).await
            })*
        }
    };
}

on_every_store! {
    async fn a_held_key_is_busy_for_others_and_free_after_release(url: &str) {
        let (one, two) = two_programs(url).await;
        let held = one.lock(ask("job:a")).await.unwrap();
        match two.lock(ask("job:a")).await {
            Err(Denied::Busy(busy)) => assert_eq!(busy.holders[0].fence, Some(held.fence())),
            other => panic!("{:?}", other.map(|held| held.fence())),
        }
        let before = held.fence();
        held.release().await.unwrap();
        let after = two.lock(ask("job:a")).await.unwrap();
        assert!(after.fence() > before);
    }

    async fn a_waiter_gets_the_key_when_it_is_released(url: &str) {
        let (one, two) = two_programs(url).await;
        let held = one.lock(ask("job:a")).await.unwrap();
        let first = held.fence();
        let waiting = tokio::spawn(async move { two.lock(ask("job:a").wait(PATIENCE)).await.map(|h| (h.fence(), h)) });
        while one.backend().show(&key("job:a")).await.unwrap().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        held.release().await.unwrap();
        let (fence, held) = waiting.await.unwrap().unwrap();
        assert!(fence > first);
        held.check().unwrap();
    }

    async fn a_wait_that_closes_a_cycle_is_refused_with_its_path(url: &str) {
        let (one, two) = two_programs(url).await;
        let _a = one.lock(ask("job:a")).await.unwrap();
        let _b = two.lock(ask("job:b")).await.unwrap();
        let waiter = one.clone();
        let waiting = tokio::spawn(async move { waiter.lock(ask("job:b").wait(PATIENCE)).await.map(|h| h.fence()) });
        while one.backend().show(&key("job:b")).await.unwrap().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        match two.lock(ask("job:a").wait(PATIENCE)).await {
            Err(Denied::Deadlock(cycle)) => {
                let (two_id, one_id) = (two.session().id().to_string(), one.session().id().to_string());
                assert_eq!(cycle.path(), [two_id, "job:a".to_owned(), one_id, "job:b".to_owned()]);
            }
            other => panic!("{:?}", other.map(|held| held.fence())),
        }
        two.end().await.unwrap();
        waiting.await.unwrap().unwrap();
    }

    async fn ending_a_session_frees_everything_it_held(url: &str) {
        let (one, two) = two_programs(url).await;
        let keys: Vec<_> = (0..60).map(|n| format!("job:{n}")).collect();
        let mut held = Vec::new();
        for name in &keys {
            held.push(one.lock(ask(name)).await.unwrap());
        }
        one.clone().end().await.unwrap();
        for name in &keys {
            two.lock(ask(name)).await.unwrap();
        }
        assert!(held[0].check().is_err());
    }

    async fn a_dropped_program_leaves_nothing_behind(url: &str) {
        let (one, two) = two_programs(url).await;
        let held = one.lock(ask("job:a")).await.unwrap();
        drop(held);
        drop(one);
        two.lock(ask("job:a").wait(PATIENCE)).await.unwrap();
    }

    async fn a_dropped_wait_leaves_the_queue(url: &str) {
        let (one, two) = two_programs(url).await;
        let _held = one.lock(ask("job:a")).await.unwrap();
        let wait = tokio::time::timeout(Duration::from_millis(200), two.lock(ask("job:a").wait(PATIENCE)));
        assert!(wait.await.is_err());
        while !one.backend().show(&key("job:a")).await.unwrap().waiting.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn a_broken_lock_is_told_to_its_holder_at_once(url: &str) {
        let (one, two) = two_programs(url).await;
        let held = one.lock(ask("job:a")).await.unwrap();
        let broken = two.backend().break_lock(&key("job:a"), "stuck", "operator").await.unwrap();
        let loss = tokio::time::timeout(PATIENCE, held.lost()).await.unwrap();
        assert_eq!(loss, bell_locks::Loss::Broken("stuck".to_owned()));
        assert!(broken.fence.unwrap() > held.fence());
        two.lock(ask("job:a")).await.unwrap();
    }

    async fn a_lease_is_renewed_beyond_its_ttl(url: &str) {
        let (one, two) = two_programs(url).await;
        // Renewals go out every second and have 1.4 s to arrive. A machine that is late by as much loses leases, and rightly
        // so: half of it may be the processor's, half the disk's.
        let ttl = Ttl::new(Duration::from_secs(3)).unwrap();
        for _ in 0..5 {
            let stall = Stall::watch();
            let held = one.lock(ask("job:a").ttl(ttl)).await.unwrap();
            let refused = two.lock(ask("job:a").wait(Duration::from_secs(4))).await;
            let kept = held.check();
            if stall.longest() < Duration::from_millis(600) {
                assert!(matches!(refused, Err(Denied::TimedOut(_))));
                return kept.unwrap();
            }
            // Nothing of this try may be in the way of the next.
            if let Ok(taken) = refused {
                taken.release().await.unwrap();
            }
            let _ = held.release().await;
        }
        panic!("the machine stood still in each of five tries");
    }

    async fn many_tasks_on_one_key_exclude_each_other(url: &str) {
        let (one, two) = two_programs(url).await;
        let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let mut tasks = Vec::new();
        for n in 0..16 {
            let locks = Locks::new(if n % 2 == 0 { one.backend() } else { two.backend() }.clone(), Default::default()).unwrap();
            let inside = inside.clone();
            tasks.push(tokio::spawn(async move {
                let held = locks.lock(ask("job:a").wait(PATIENCE * 3)).await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                let fence = held.fence();
                held.release().await.unwrap();
                fence
            }));
        }
        let mut fences = Vec::new();
        for task in tasks {
            fences.push(task.await.unwrap());
        }
        fences.sort();
        fences.dedup();
        assert_eq!(fences.len(), 16);
    }
}
