//! What is refused, as what, and that no credentials are repeated.

use std::net::TcpListener;

use crate::support::{commit, eventually, put, value};
use bell_e2e::{Etcd as Cluster, free_port};
use bell_store::info::FailOver;
use bell_store::{Error, Kind, Stamp, Store, Txn, Write};
use bell_store_etcd::Etcd;
use etcd_client::{Client, Permission, PermissionType};

const PASSWORD: &str = "geheim";

async fn refused(url: &str) -> Error {
    let error = Etcd::open(url).await.expect_err("it is refused");
    assert!(!error.advice().is_empty(), "{error} comes without advice");
    error
}

async fn admin(etcd: &Cluster) -> Client {
    Client::connect([etcd.address(0)], None).await.unwrap()
}

/// Users `root` and `ann`, who may use the prefix `hers` only; authentication is on.
async fn with_users(etcd: &Cluster) {
    let client = admin(etcd).await;
    let mut auth = client.auth_client();
    auth.user_add("root", PASSWORD, None).await.unwrap();
    auth.user_grant_role("root", "root").await.unwrap_or_else(|_| panic!("the role root"));
    auth.role_add("hers").await.unwrap();
    let permission = Permission::new(PermissionType::Readwrite, "hers/").with_prefix();
    auth.role_grant_permission("hers", permission).await.unwrap();
    auth.user_add("ann", PASSWORD, None).await.unwrap();
    auth.user_grant_role("ann", "hers").await.unwrap();
    auth.auth_enable().await.unwrap();
}

#[tokio::test]
async fn who_may_not_is_told_so_without_repeating_the_password() {
    let etcd = Cluster::start();
    let host = etcd.addresses();
    let error = refused(&format!("etcd://ann:{PASSWORD}@{host}/hers")).await;
    assert_eq!(error.kind(), Kind::Unauthorized, "etcd has no authentication yet: {error}");
    with_users(&etcd).await;
    for url in [
        format!("etcd://ann:{PASSWORD}x@{host}/hers"),
        format!("etcd://bob:{PASSWORD}@{host}/hers"),
        format!("etcd://ann:{PASSWORD}@{host}/his"),
        format!("etcd://{host}/hers"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), Kind::Unauthorized, "{error}");
        assert!(!format!("{error} {error:?} {}", error.advice()).contains(PASSWORD), "{error:?}");
    }
    let store = Etcd::open(&format!("etcd://ann:{PASSWORD}@{host}/hers")).await.unwrap();
    commit(&store, put("a", "1")).await.unwrap();
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some(&b"1"[..]));
    let shown = format!("{store:?} {:?}", store.info());
    assert!(shown.contains(&host) && !shown.contains(PASSWORD), "{shown}");
}

#[tokio::test]
async fn where_nobody_listens_every_address_is_named() {
    let (first, second) = (free_port(), free_port());
    let error = refused(&format!("etcd://ann:{PASSWORD}@127.0.0.1:{first},127.0.0.1:{second}/bell")).await;
    assert_eq!(error.kind(), Kind::Unavailable);
    let shown = error.to_string();
    assert!(shown.contains(&first.to_string()) && shown.contains(&second.to_string()), "{shown}");
    assert!(!format!("{error:?}").contains(PASSWORD));
}

#[tokio::test]
async fn what_listens_but_is_no_etcd_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(drop));
    let error = refused(&format!("etcd://127.0.0.1:{port}/bell")).await;
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_prefix_that_others_use_is_left_alone() {
    let etcd = Cluster::start();
    let mut client = admin(&etcd).await;
    client.put("registry/pods/a", "theirs", None).await.unwrap();
    let error = refused(&etcd.url("registry")).await;
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    let error = refused(&etcd.url("registry/pods")).await;
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(
        client.get("", Some(etcd_client::GetOptions::new().with_all_keys())).await.unwrap().count(),
        1
    );
    Etcd::open(&etcd.url("regis")).await.expect("a prefix that only starts the same is free");
}

#[tokio::test]
async fn a_store_of_a_newer_program_is_left_alone() {
    let etcd = Cluster::start();
    drop(Etcd::open(&etcd.url("bell")).await.unwrap());
    admin(&etcd).await.put("bell/format", "bellwether store 3", None).await.unwrap();
    assert_eq!(refused(&etcd.url("bell")).await.kind(), Kind::TooNew);
}

#[tokio::test]
async fn a_store_whose_state_was_removed_is_corrupt() {
    let etcd = Cluster::start();
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    admin(&etcd).await.delete("bell/m/line", None).await.unwrap();
    assert_eq!(refused(&etcd.url("bell")).await.kind(), Kind::Corrupt);
    assert_eq!(store.read(&[]).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn members_of_different_clusters_are_not_mixed() {
    let (mut one, other) = (Cluster::start(), Cluster::start());
    let url = format!("etcd://{},{}/bell", one.addresses(), other.addresses());
    let store = Etcd::open(&url).await.unwrap();
    one.kill(0);
    let error = store.read(&[]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("different clusters"), "{error}");
}

#[tokio::test]
async fn a_commit_larger_than_etcd_takes_is_refused_and_writes_nothing() {
    let etcd = Cluster::start();
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    let before = store.read(&[]).await.unwrap().revision;
    for count in [2, 60] {
        let large = |number: usize| (number.to_string().into(), Write::Put(vec![1; 1 << 20], Stamp::New));
        let txn = Txn { writes: (0..count).map(large).collect(), ..Txn::default() };
        let error = store.commit(txn).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{count} MiB: {error}");
        assert!(error.advice().contains("--max-request-bytes"));
    }
    let after = store.read(&["0".into()]).await.unwrap();
    assert_eq!((after.revision, after.records.len()), (before, 0));
}

#[tokio::test]
async fn a_full_etcd_is_full_and_can_still_be_read() {
    let etcd = Cluster::start_with(1, &["--quota-backend-bytes=4194304"]);
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    commit(&store, put("a", "1")).await.unwrap();
    let error = loop {
        if let Err(error) = commit(&store, put("b", vec![7; 1 << 19])).await {
            break error;
        }
    };
    assert_eq!(error.kind(), Kind::Full, "{error}");
    assert!(error.advice().contains("alarm disarm"));
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some(&b"1"[..]));
    let again = eventually(async || Etcd::open(&etcd.url("bell")).await).await;
    assert_eq!(value(&again, "a").await.unwrap().as_deref(), Some(&b"1"[..]));
}

#[tokio::test]
async fn one_member_alone_is_warned_about() {
    let etcd = Cluster::start();
    let store = Etcd::open(&etcd.url("bell")).await.unwrap();
    let warnings = &store.info().warnings;
    assert!(warnings.len() == 1 && warnings[0].words.contains("one member"), "{warnings:?}");
    assert_eq!(store.info().fail_over, FailOver::None);
}
