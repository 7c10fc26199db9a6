//! What is wrong is refused with its own kind, a reason and what to do; nothing is half-written, and no password is
//! shown.

use std::io::{Read, Write};
use std::net::TcpListener;

use bell_e2e::{Redis, free_port};
use bell_store::{Kind, Store};
use bell_store_redis::RedisStore;

use crate::support::{commit, put, set_head, told, value};

/// Opening fails so, and says nothing of the password `hunter2`.
async fn refused(url: &str) -> (Kind, String) {
    let error = RedisStore::open(url).await.expect_err("it should be refused");
    assert!(!error.advice().is_empty(), "{error} says nothing of what to do");
    assert!(!told(&error).contains("hunter2"), "{}", told(&error));
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_unauthorized() {
    let server = Redis::start_with(&["--requirepass", "right"]);
    let at = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    for login in ["", ":hunter2@", "ann:hunter2@"] {
        let (kind, words) = refused(&at(login)).await;
        assert_eq!(kind, Kind::Unauthorized, "{login}: {words}");
        assert!(words.contains("refuses this user and password"), "{words}");
    }
    let store = RedisStore::open(&at(":right@")).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    assert!(!format!("{store:?} {:?}", store.info()).contains("right@"));
}

#[tokio::test]
async fn an_unknown_database_is_invalid() {
    let server = Redis::start();
    let (kind, words) = refused(&format!("redis://127.0.0.1:{}/999", server.port())).await;
    assert_eq!(kind, Kind::Invalid, "{words}");
    assert!(words.contains("no database of that number"), "{words}");
}

#[tokio::test]
async fn databases_are_apart() {
    let server = Redis::start();
    let at = |database: u8| format!("redis://127.0.0.1:{}/{database}", server.port());
    let (one, two) = (RedisStore::open(&at(1)).await.unwrap(), RedisStore::open(&at(2)).await.unwrap());
    commit(&one, put("x", "1")).await.unwrap();
    assert_eq!(value(&two, "x").await, None);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let (kind, words) = refused(&format!("redis://u:hunter2@127.0.0.1:{}", free_port())).await;
    assert_eq!(kind, Kind::Unavailable, "{words}");
    assert!(words.contains("127.0.0.1"), "{words}");
    let (kind, words) = refused("redis://u:hunter2@no-such-host.invalid").await;
    assert_eq!(kind, Kind::Unavailable, "{words}");
}

#[tokio::test]
async fn something_that_is_no_redis_server_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://u:hunter2@{}", listener.local_addr().unwrap());
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1_024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    let (kind, words) = refused(&url).await;
    assert_eq!(kind, Kind::Unsupported, "{words}");
    other.join().unwrap();
}

#[tokio::test]
async fn a_replica_is_read_only_and_names_its_primary() {
    let primary = Redis::start();
    let port = primary.port().to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    let (kind, words) = refused(&replica.url("a")).await;
    assert_eq!(kind, Kind::ReadOnly, "{words}");
    assert!(words.contains(&format!("a replica of 127.0.0.1:{port}")), "{words}");
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_neither_written_nor_read() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    // Nobody listens there: while a replica copies its primary, a slow disk can keep it from answering at all.
    server.run(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(store.read(&["x".into()]).await.unwrap_err().kind(), Kind::ReadOnly);
    assert_eq!(store.commit(put("x", "2")).await.unwrap_err().kind(), Kind::ReadOnly);
}

#[tokio::test]
async fn a_server_that_throws_keys_away_is_unsupported() {
    let server = Redis::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let (kind, words) = refused(&server.url("a")).await;
    assert_eq!(kind, Kind::Unsupported, "{words}");
}

#[tokio::test]
async fn a_server_without_memory_is_full_and_can_still_be_read() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = store.commit(put("x", "2")).await.unwrap_err();
    assert_eq!(full.kind(), Kind::Full, "{full}");
    assert_eq!(value(&store, "x").await.as_deref(), Some("1"));
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    commit(&store, put("x", "2")).await.unwrap();
}

#[tokio::test]
async fn keys_of_another_program_are_left_alone() {
    let server = Redis::start();
    for key in ["{a}:meta", "{a}:names", "{a}:records", "{a}:deleted"] {
        server.run(&["SET", key, "theirs"]);
        let (kind, words) = refused(&server.url("a")).await;
        assert_eq!(kind, Kind::Invalid, "{words}");
        assert!(words.contains("another program uses keys with this prefix"), "{words}");
        assert_eq!(server.run(&["DBSIZE"]), "1");
        assert_eq!(server.run(&["GET", key]), "theirs");
        server.run(&["DEL", key]);
    }
    server.run(&["HSET", "{a}:meta", "their", "field"]);
    assert_eq!(refused(&server.url("a")).await.0, Kind::Invalid);
    assert_eq!(server.run(&["HLEN", "{a}:meta"]), "1");
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_too_new_also_to_those_who_have_it_open() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    server.run(&["HSET", "{a}:meta", "format", "4"]);
    assert_eq!(refused(&server.url("a")).await.0, Kind::TooNew);
    set_head(&server, "a", "format", "4");
    assert_eq!(store.commit(put("x", "1")).await.unwrap_err().kind(), Kind::TooNew);
    assert_eq!(store.now().await.unwrap_err().kind(), Kind::TooNew);
}

#[tokio::test]
async fn a_store_of_an_older_version_is_refused_and_left_alone() {
    let server = Redis::start();
    server.run(&["HSET", "{a}:records", "x", "old"]);
    server.run(&["ZADD", "{a}:names", "0", "x"]);
    for format in ["1", "2"] {
        server.run(&["HSET", "{a}:meta", "format", format, "revision", "7"]);
        let (kind, words) = refused(&server.url("a")).await;
        assert_eq!(kind, Kind::Unsupported, "{words}");
        assert!(words.contains(&format!("an older Bellwether made this store (format {format})")), "{words}");
        assert_eq!(
            (server.run(&["HLEN", "{a}:meta"]), server.run(&["HLEN", "{a}:records"])),
            ("2".into(), "1".into())
        );
    }
}

#[tokio::test]
async fn a_store_with_missing_parts_is_corrupt() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    server.run(&["ZREM", "{a}:names", "x"]);
    assert_eq!(store.scan("", "", 10).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(refused(&server.url("a")).await.0, Kind::Corrupt);
    server.run(&["DEL", "{a}:meta"]);
    assert_eq!(refused(&server.url("a")).await.0, Kind::Corrupt);
    assert_eq!(server.run(&["HLEN", "{a}:records"]), "2", "the record, and the head");
}

#[tokio::test]
async fn a_store_whose_records_are_gone_is_not_written_to() {
    let server = Redis::start();
    let store = RedisStore::open(&server.url("a")).await.unwrap();
    commit(&store, put("x", "1")).await.unwrap();
    server.run(&["DEL", "{a}:records"]);
    assert_eq!(store.commit(put("y", "1")).await.unwrap_err().kind(), Kind::Rewound);
    assert_eq!(refused(&server.url("a")).await.0, Kind::Corrupt);
    assert_eq!(store.raise_epoch().await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(server.run(&["EXISTS", "{a}:records"]), "0");
}

#[tokio::test]
async fn a_user_with_too_few_rights_is_unauthorized_and_leaves_nothing_behind() {
    let server = Redis::start();
    let url = format!("redis://ann:hunter2@127.0.0.1:{}?prefix=a", server.port());
    let rights = |rights: &[&str]| {
        let user = ["ACL", "SETUSER", "ann", "reset", "on", ">hunter2"];
        assert_eq!(server.run(&[&user, rights].concat()), "OK");
    };
    for too_few in [
        &["~{a}:*", "&{a}:*", "+@all", "-info"][..],
        &["~{a}:*", "&{a}:*", "+@all", "-zadd"],
        &["~{a}:*", "&{a}:*", "+@all", "-lpop"],
        &["~{a}:*", "&{a}:*", "+@all", "-publish"],
        &["~{a}:*", "resetchannels", "+@all"],
        &["~other:*", "&{a}:*", "+@all"],
    ] {
        rights(too_few);
        let (kind, words) = refused(&url).await;
        assert_eq!(kind, Kind::Unauthorized, "{too_few:?}: {words}");
        assert_eq!(server.run(&["DBSIZE"]), "0", "{too_few:?}");
    }
}

#[tokio::test]
async fn the_rights_that_the_page_lists_are_enough() {
    let server = Redis::start();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stores/redis.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER bell ")).expect("the page says how");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(server.run(&words), "OK");
    let password = words.iter().find_map(|word| word.strip_prefix('>')).unwrap();
    let url = format!("redis://bell:{password}@127.0.0.1:{}", server.port());
    let store = RedisStore::open(&url).await.unwrap();
    let committed = commit(&store, put("x", "1")).await.unwrap();
    assert_eq!(store.scan("", "", 10).await.unwrap().version("x"), committed.revision);
    store.raise_epoch().await.unwrap();
    let unknown = store.info().warnings.iter().any(|warning| warning.words.contains("CONFIG is not allowed"));
    assert!(!unknown, "{:?}", store.info().warnings);
}
