//! The store's time between hosts, on a real etcd: each handle here has a boot and a clock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bell_e2e::SharedEtcd;
use bell_store::clock::boottime;
use bell_store::txn::MAX_LAG;
use bell_store::{Expect, Outcome, Stamp, Store, Timestamp, Txn, Write};

use crate::Etcd;
use crate::line::{Host, MAX_WIDTH};

const DAY: Duration = Duration::from_secs(86_400);

/// What the clocks of a simulated host and the test may differ by: both are cut to whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(3);

struct Hosts {
    etcd: Arc<SharedEtcd>,
    prefix: u64,
}

impl Hosts {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { etcd: SharedEtcd::get(), prefix: COUNT.fetch_add(1, Ordering::Relaxed) }
    }

    /// A process on a host that has been up for so many days longer than this machine.
    async fn open(&self, host: &str, days: u32) -> Etcd {
        let url = self.etcd.url(&format!("hosts/{}", self.prefix));
        Etcd::open_on(&url, Host::other(host, DAY * days)).await.unwrap()
    }
}

fn line(store: &Etcd) -> u64 {
    store.lane.timekeeper.line().number
}

async fn now(store: &Etcd) -> Timestamp {
    store.now().await.unwrap()
}

/// Replaces the lease, decided for `at`.
fn replace(version: u64, at: Timestamp) -> Txn {
    Txn {
        at: Some(at),
        expect: vec![("lease".into(), Expect::seen(version))],
        writes: vec![("lease".into(), Write::Put(Vec::new(), Stamp::New))],
    }
}

#[tokio::test]
async fn a_host_that_asks_is_never_ahead_and_hardly_behind() {
    // On a machine so busy that an answer takes too long, the asker goes on by itself; then again.
    for attempt in 0..10 {
        let hosts = Hosts::new();
        let (first, second) = (hosts.open("first", 0).await, hosts.open("second", 100).await);
        let before = now(&first).await;
        let between = now(&second).await;
        let after = now(&first).await;
        if (line(&first), line(&second)) == (1, 1) {
            assert!(between <= after, "{between:?} is ahead of {after:?}");
            assert!(between + MAX_WIDTH + ROUNDING >= before, "{between:?} is far behind {before:?}");
            let Outcome::Committed(done) = second.commit(replace(0, between)).await.unwrap() else {
                panic!("a commit decided for the time that was told conflicts");
            };
            assert!(done.now >= between);
            return;
        }
        assert!(attempt < 9, "no answer came in time, ten times");
    }
}

#[tokio::test]
async fn if_nobody_answers_the_next_host_goes_on_from_the_last_commit() {
    let hosts = Hosts::new();
    let first = hosts.open("first", 0).await;
    let at = now(&first).await;
    first.commit(replace(0, at)).await.unwrap();
    let (last, sent) = (now(&first).await, boottime());
    drop(first);
    let second = hosts.open("second", 100).await;
    let next = now(&second).await;
    assert_eq!(line(&second), 2);
    assert!(next >= at, "{next:?} is before the last commit at {at:?}");
    assert!(next <= last + (boottime() - sent) + ROUNDING, "time ran faster than it does");
}

#[tokio::test]
async fn on_one_host_time_goes_on_while_no_process_is_there() {
    let hosts = Hosts::new();
    let (first, sent) = (now(&hosts.open("one", 0).await).await, boottime());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let passed = boottime() - sent;
    let again = hosts.open("one", 0).await;
    assert!(now(&again).await + ROUNDING >= first + passed);
    assert_eq!(line(&again), 1);
}

#[tokio::test]
async fn between_hosts_time_goes_on_by_etcds_count_while_no_process_is_there() {
    let hosts = Hosts::new();
    let first = now(&hosts.open("first", 0).await).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let second = hosts.open("second", 100).await;
    // Counted in whole seconds, and from a moment after the start.
    assert!(now(&second).await >= first + Duration::from_secs(2));
    assert_eq!(line(&second), 2);
}

#[tokio::test]
async fn a_host_that_was_passed_over_follows_and_its_time_never_goes_back() {
    let hosts = Hosts::new();
    let (first, second) = (hosts.open("first", 0).await, hosts.open("second", 100).await);
    let mut told = now(&first).await;
    for _ in 0..3 {
        second.lane.timekeeper.draw_next().await.unwrap();
        let next = now(&first).await;
        assert!(next >= told, "{next:?} after {told:?}");
        assert_eq!(line(&first), line(&second));
        told = next;
        first.lane.timekeeper.draw_next().await.unwrap();
    }
}

/// The proof of `crate::line`, tried: whatever hosts come, go and pass each other over, nobody can take a
/// lease for ended before its time, less the allowed lag, has passed since its request left.
#[tokio::test]
async fn no_lease_ends_early_whatever_host_judges_it() {
    const DRIFT: Duration = Duration::from_millis(30);
    let hosts = Hosts::new();
    let open = async |index: usize| hosts.open(&format!("host-{index}"), 50 * index as u32).await;
    let mut stores = vec![open(0).await, open(1).await, open(2).await];
    // (decided for, sent) of the lease that stands.
    let mut standing: Option<(Timestamp, Duration)> = None;
    let mut chance: u32 = 12_345;
    let mut dice = |sides: u32| {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (chance >> 16) % sides
    };
    let (mut lines, mut judged) = (0, 0);
    for _ in 0..100 {
        let index = dice(3) as usize;
        match dice(8) {
            // The process ends, and another starts on the host, later than any lag that is allowed.
            0 => {
                drop(stores.remove(index));
                tokio::time::sleep(MAX_LAG * 2).await;
                stores.insert(index, open(index).await);
                // Half of them ask, half get no answer: their line starts well behind the one before.
                if dice(2) == 0 {
                    stores[index].lane.timekeeper.draw_next().await.unwrap();
                }
            }
            1 => stores[index].lane.timekeeper.draw_next().await.unwrap(),
            _ => tokio::time::sleep(Duration::from_millis(dice(40).into())).await,
        }
        let store = &stores[index];
        let seen = store.read(&["lease".into()]).await.unwrap();
        let sent = boottime();
        if let Outcome::Committed(_) = store.commit(replace(seen.version("lease"), seen.now)).await.unwrap() {
            if let Some((granted_for, granted)) = standing {
                let on_the_clock = seen.now.since(granted_for);
                assert!(on_the_clock <= sent - granted + MAX_LAG + DRIFT, "a lease ended early");
                judged += 1;
            }
            standing = Some((seen.now, sent));
        }
        lines = lines.max(line(store));
    }
    assert!(judged > 40 && lines > 5, "judged {judged} leases on {lines} lines: too few to mean anything");
}
