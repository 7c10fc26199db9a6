//! What is found on real servers, in each way they can be set up.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bell_e2e::{Etcd, Postgres, Redis, Sentinel};
use bell_locks::open::open_store;
use bell_store::clock::boottime;
use bell_store::{Stamp, Txn, Write};
use bell_verify::doctor::{Checkup, Commits, Level, look};

const SYNCED: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

async fn looked_at(url: &str) -> Checkup {
    look(&open_store(url).await.unwrap()).await
}

fn level(checkup: &Checkup, about: &str) -> Level {
    let found = checkup.findings.iter().find(|finding| finding.about == about);
    found.unwrap_or_else(|| panic!("nothing about {about}: {checkup:?}")).level
}

/// Durability, fail-over, and the worst of all.
fn levels(checkup: &Checkup) -> (Level, Level, Level) {
    (level(checkup, "durability"), level(checkup, "fail-over"), checkup.worst())
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let give_up = boottime() + PATIENCE;
    while !is_so() {
        assert!(boottime() < give_up, "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A replica that the primary knows of.
async fn replica_of(primary: &Redis) -> Redis {
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    until("the replica follows", || primary.run(&["INFO", "replication"]).contains("connected_slaves:1"))
        .await;
    replica
}

#[tokio::test]
async fn redis_with_its_usual_persistence_can_cost_an_outage_but_not_two_holders() {
    for options in [&[][..], &["--appendonly", "yes", "--appendfsync", "everysec"]] {
        let server = Redis::start_with(options);
        let checkup = looked_at(&server.url("bell")).await;
        assert_eq!(levels(&checkup), (Level::Warning, Level::Note, Level::Warning), "{checkup:?}");
        let durability = checkup.findings.iter().find(|finding| finding.about == "durability").unwrap();
        assert!(durability.next.as_deref().unwrap().contains("appendfsync always"), "{durability:?}");
    }
}

#[tokio::test]
async fn redis_that_syncs_every_commit_is_sound() {
    let server = Redis::start_with(&SYNCED);
    let checkup = looked_at(&server.url("bell")).await;
    assert_eq!(levels(&checkup), (Level::Ok, Level::Note, Level::Note), "{checkup:?}");
    assert_eq!(checkup.seen.commits, Commits::Taken);
    assert!(checkup.seen.clock.unwrap().ahead_ms.unwrap().abs() < 60_000, "{checkup:?}");
}

#[tokio::test]
async fn redis_with_a_replica_is_unsafe_however_it_syncs() {
    let primary = Redis::start_with(&SYNCED);
    let _replica = replica_of(&primary).await;
    let checkup = looked_at(&primary.url("bell")).await;
    assert_eq!(levels(&checkup), (Level::Ok, Level::Unsafe, Level::Unsafe), "{checkup:?}");
}

#[tokio::test]
async fn redis_behind_a_sentinel_is_unsafe() {
    let primary = Redis::start_with(&SYNCED);
    let sentinel = Sentinel::start("locks", &primary);
    let checkup = looked_at(&format!("redis+sentinel://127.0.0.1:{}/locks", sentinel.port())).await;
    assert_eq!(levels(&checkup), (Level::Ok, Level::Unsafe, Level::Unsafe), "{checkup:?}");
}

#[tokio::test]
async fn redis_that_may_have_gone_back_waits_for_an_operator() {
    let mut server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
    let url = server.url("bell");
    let store = open_store(&url).await.unwrap();
    let write = Write::Put(b"x".to_vec(), Stamp::New);
    store.commit(Txn { writes: vec![("a".into(), write)], ..Txn::default() }).await.unwrap();
    drop(store);
    server.restart();
    let checkup = looked_at(&url).await;
    assert!(matches!(checkup.seen.commits, Commits::Rewound { .. }), "{checkup:?}");
    assert_eq!(level(&checkup, "commits"), Level::Unsafe);
}

#[tokio::test]
async fn postgres_alone_is_sound() {
    let server = Postgres::start_with(&[]);
    let checkup = looked_at(&server.url("bell")).await;
    assert_eq!(levels(&checkup), (Level::Ok, Level::Note, Level::Note), "{checkup:?}");
}

#[tokio::test]
async fn postgres_that_does_not_sync_is_unsafe() {
    let server = Postgres::start_with(&["-c", "fsync=off"]);
    let checkup = looked_at(&server.url("bell")).await;
    assert_eq!(levels(&checkup), (Level::Unsafe, Level::Note, Level::Unsafe), "{checkup:?}");
}

#[tokio::test]
async fn postgres_with_a_standby_is_unsafe_until_it_waits_for_it() {
    let primary = Postgres::start_with(&[]);
    let _standby = Postgres::standby_of(&primary, &[]);
    until("the standby follows", || primary.sql("SELECT count(*) FROM pg_stat_replication") == "1").await;
    let checkup = looked_at(&primary.url("bell")).await;
    assert_eq!(levels(&checkup), (Level::Ok, Level::Unsafe, Level::Unsafe), "{checkup:?}");

    primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'");
    primary.sql("SELECT pg_reload_conf()");
    until("it waits", || primary.sql("SHOW synchronous_standby_names") == "ANY 1 (*)").await;
    let checkup = looked_at(&primary.url("bell")).await;
    assert_eq!(levels(&checkup), (Level::Ok, Level::Ok, Level::Note), "{checkup:?}");
}

#[tokio::test]
async fn etcd_with_one_member_is_safe_but_alone_and_with_three_it_goes_on() {
    for (members, expected) in [(1, Level::Note), (3, Level::Ok)] {
        let etcd = Etcd::start_with(members, &[]);
        let checkup = looked_at(&etcd.url("bell")).await;
        assert_eq!(levels(&checkup), (Level::Ok, expected, Level::Note), "{members} members: {checkup:?}");
    }
}

#[tokio::test]
async fn a_file_on_a_disk_is_sound_and_one_in_memory_is_warned_of() {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    for (folder, expected) in [(disk.path(), Level::Ok), (memory.path(), Level::Warning)] {
        for scheme in ["sqlite", "file"] {
            let checkup = looked_at(&url(scheme, folder)).await;
            assert_eq!(level(&checkup, "durability"), expected, "{checkup:?}");
            assert!(checkup.worst() < Level::Unsafe, "{checkup:?}");
            assert!(checkup.seen.machine.room.is_some(), "{checkup:?}");
        }
    }
}

#[tokio::test]
async fn a_look_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(&url("sqlite", folder.path())).await.unwrap();
    look(&Arc::clone(&store)).await;
    assert!(store.scan("", "", 10).await.unwrap().records.is_empty());
}

fn url(scheme: &str, folder: &Path) -> String {
    format!("{scheme}:{}", folder.join(format!("{scheme}-store")).display())
}
