//! Fail-over to a standby, with and without commits that wait for it.

mod support;

use std::time::Duration;

use bell_e2e::Postgres as Server;
use bell_store::info::FailOver;
use bell_store::{Kind, Store};
use bell_store_postgres::Postgres;

use support::{committed, put, read, refused};

/// A primary with a standby that has all of this, and the URL that leads to whichever can be written.
fn pair() -> (Server, Server) {
    let primary = Server::start();
    let standby = Server::standby_of(&primary, &["-c", "fsync=off"]);
    (primary, standby)
}

fn url_of_both(primary: &Server, standby: &Server) -> String {
    let (one, two, password) = (primary.port(), standby.port(), Server::PASSWORD);
    format!("postgres://postgres:{password}@127.0.0.1:{one},127.0.0.1:{two}/postgres")
}

fn wait_for_standby(primary: &Server, standby: &Server) {
    let reached = primary.sql("SELECT pg_current_wal_lsn()");
    for _ in 0..1_000 {
        if standby.sql(&format!("SELECT pg_last_wal_replay_lsn() >= '{reached}'")) == "t" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the standby does not follow");
}

/// What the primary does from now on does not reach it.
fn cut_off(standby: &Server) {
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.sql("SELECT pg_reload_conf()");
    while standby.sql("SELECT count(*) FROM pg_stat_wal_receiver") != "0" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_standby_is_refused() {
    let (primary, standby) = pair();
    committed(&Postgres::open(&primary.url("bell")).await.unwrap(), put("a", "1")).await;
    assert_eq!(refused(&standby.url("bell")).await.kind(), Kind::ReadOnly);
}

#[tokio::test]
async fn an_asynchronous_standby_is_warned_of_and_refuses_commits_until_the_epoch_is_raised() {
    let (mut primary, standby) = pair();
    let url = url_of_both(&primary, &standby);
    let store = Postgres::open(&url).await.unwrap();
    assert!(
        store.info().warnings.iter().any(|warning| warning.words.contains("repeat fences")),
        "{:?}",
        store.info()
    );
    assert_eq!(store.info().fail_over, FailOver::Loses);
    committed(&store, put("a", "kept")).await;
    wait_for_standby(&primary, &standby);
    cut_off(&standby);
    let lost = committed(&store, put("a", "lost")).await.revision;
    primary.kill();
    standby.promote();

    let newcomer = Postgres::open(&url).await.unwrap();
    for store in [&store, &newcomer] {
        // The first request may still meet the connection that was lost.
        let _ = store.read(&[]).await;
        let error = store.commit(put("a", "twice")).await.unwrap_err();
        let error = if error.kind() == Kind::Rewound {
            error
        } else {
            store.commit(put("a", "x")).await.unwrap_err()
        };
        assert_eq!(error.kind(), Kind::Rewound, "{error:?}");
        assert!(!error.advice().is_empty());
    }
    assert_eq!(read(&newcomer, "a").await.records["a"].value, b"kept");
    newcomer.raise_epoch().await.unwrap();
    for store in [&store, &newcomer] {
        assert!(committed(store, put("a", "new")).await.revision > lost + (1 << 39));
    }
}

#[tokio::test]
async fn a_standby_that_had_to_confirm_takes_over_without_a_word() {
    let (mut primary, standby) = pair();
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.sql("SELECT pg_reload_conf()");
    let url = url_of_both(&primary, &standby);
    let store = Postgres::open(&url).await.unwrap();
    assert!(
        !store.info().warnings.iter().any(|warning| warning.words.contains("repeat fences")),
        "{:?}",
        store.info()
    );
    assert_eq!(store.info().fail_over, FailOver::Kept);
    committed(&store, put("a", "replaced")).await;
    let before = committed(&store, put("a", "kept")).await.revision;
    primary.kill();
    standby.promote();
    let store = Postgres::open(&url).await.unwrap();
    assert_eq!(read(&store, "a").await.records["a"].value, b"kept");
    assert!(committed(&store, put("a", "new")).await.revision > before);
}

#[tokio::test]
async fn a_standby_that_no_longer_has_to_confirm_is_not_trusted_to_have_everything() {
    let (mut primary, standby) = pair();
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.sql("SELECT pg_reload_conf()");
    let url = url_of_both(&primary, &standby);
    let store = Postgres::open(&url).await.unwrap();
    committed(&store, put("a", "confirmed")).await;
    committed(&store, put("a", "confirmed too")).await;
    primary.sql("ALTER SYSTEM RESET synchronous_standby_names");
    primary.sql("SELECT pg_reload_conf()");
    while !primary.sql("SELECT current_setting('synchronous_standby_names')").is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The store's connection takes note of the change with its next statement, or with the one after.
    for _ in 0..3 {
        committed(&store, put("a", "perhaps")).await;
    }
    wait_for_standby(&primary, &standby);
    primary.kill();
    standby.promote();
    let newcomer = Postgres::open(&url).await.unwrap();
    assert_eq!(newcomer.commit(put("a", "new")).await.unwrap_err().kind(), Kind::Rewound);
}

#[tokio::test]
async fn a_store_that_went_back_under_an_open_handle_is_noticed() {
    let server = Server::start();
    let store = Postgres::open(&server.url("bell")).await.unwrap();
    committed(&store, put("a", "1")).await;
    committed(&store, put("a", "2")).await;
    // What restoring a dump into the same server does.
    server.sql("UPDATE bell.meta SET revision = 1");
    assert_eq!(store.commit(put("a", "3")).await.unwrap_err().kind(), Kind::Rewound);
    store.raise_epoch().await.unwrap();
    committed(&store, put("a", "3")).await;
}

#[tokio::test]
async fn a_store_that_was_copied_to_another_server_is_noticed() {
    let server = Server::start();
    committed(&Postgres::open(&server.url("bell")).await.unwrap(), put("a", "1")).await;
    server.sql("UPDATE bell.meta SET system = '1'");
    let store = Postgres::open(&server.url("bell")).await.unwrap();
    assert_eq!(store.commit(put("a", "2")).await.unwrap_err().kind(), Kind::Rewound);
    let page = include_str!("../../../docs/stores/postgres.md");
    server.sql(page.lines().find(|line| line.starts_with("SELECT bell.raise_epoch")).unwrap());
    committed(&store, put("a", "2")).await;
}
