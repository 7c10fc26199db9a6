//! The record of what operators did: made with the act, one chain for all nodes, and whoever touches it is found out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bell_coord::audit::act;
use bell_coord::keys::Role;
use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::audit::{Break, Entry, Head, Way, Who};
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_core::work::pause::Extent;
use bell_store::memory::Memory;
use bell_store::{Name, Stamp, Txn, Write};

fn ann() -> Who {
    Who { name: "key laptop".to_owned(), via: Way::Http }
}

fn coord() -> Coord {
    Coord::new(Arc::new(Memory::new()))
}

async fn entries(coord: &Coord) -> Vec<Entry> {
    let (found, more) = coord.audited(1, 1_000).await.unwrap();
    assert!(!more);
    found.into_values().map(Option::unwrap).collect()
}

async fn write(coord: &Coord, name: &str, write: Write) {
    let txn = Txn { writes: vec![(Name::from(name), write)], ..Txn::default() };
    coord.store().commit(txn).await.unwrap();
}

fn place(number: u64) -> String {
    format!("audit/chain/{number:016x}")
}

async fn acted(coord: &Coord, acts: u64) {
    for number in 1..=acts {
        coord.audit(act(&ann(), "stop", number)).await.unwrap();
    }
}

#[tokio::test]
async fn an_act_is_on_record_with_who_what_and_why_and_one_without_effect_is_not() {
    let coord = coord();
    let pausing = || coord.acting(act(&ann(), "pause", "the fleet").because("deploying"));
    assert!(pausing().pause(&Extent::Fleet, "deploying").await.unwrap());
    assert!(!pausing().pause(&Extent::Fleet, "deploying").await.unwrap(), "it is paused already");
    let [entry] = entries(&coord).await.try_into().unwrap();
    assert_eq!((entry.number, entry.who.as_str(), entry.via), (1, "key laptop", Way::Http));
    assert_eq!((entry.act.as_str(), entry.on.as_str()), ("pause", "the fleet"));
    assert_eq!((entry.reason.as_str(), entry.outcome.as_str()), ("deploying", "done"));
    assert_eq!(coord.audit_check(None).await.unwrap(), Ok(entry.head()));
}

#[tokio::test]
async fn what_nobody_asked_for_is_nobodys_act() {
    let coord = coord();
    coord.pause(&Extent::Fleet, "deploying").await.unwrap();
    assert!(entries(&coord).await.is_empty());
    assert_eq!(coord.audit_check(None).await.unwrap(), Ok(Head::none()));
}

#[tokio::test]
async fn keys_are_made_and_revoked_on_record_and_their_secrets_are_not() {
    let coord = coord();
    let name = "ci".parse().unwrap();
    let key = coord.acting(act(&ann(), "keys add", &name)).add_key(&name, Role::Full).await.unwrap().unwrap();
    let again = coord.acting(act(&ann(), "keys add", &name)).add_key(&name, Role::Full).await.unwrap();
    assert!(again.is_none());
    assert!(coord.acting(act(&ann(), "keys revoke", &name)).revoke_key(&name).await.unwrap());
    let found = entries(&coord).await;
    let acts: Vec<&str> = found.iter().map(|entry| entry.act.as_str()).collect();
    assert_eq!(acts, ["keys add", "keys revoke"]);
    let text = serde_json::to_string(&found).unwrap();
    assert!(!text.contains(key.expose().rsplit('_').next().unwrap()));
}

#[tokio::test]
async fn many_nodes_that_act_at_once_write_one_chain() {
    let first = coord();
    let mut acting = tokio::task::JoinSet::new();
    for node in 0..8 {
        let coord = Coord::new(Arc::clone(first.store()));
        acting.spawn(async move {
            for number in 0..10 {
                coord.audit(act(&ann(), "run", format!("{node}-{number}"))).await.unwrap();
            }
        });
    }
    while let Some(done) = acting.join_next().await {
        done.unwrap();
    }
    let head = first.audit_check(None).await.unwrap().unwrap();
    assert_eq!(head.number, 80);
}

#[tokio::test]
async fn a_broken_lock_is_on_record_with_those_who_held_it() {
    let coord = coord();
    let key = Key::parse("deploy://api").unwrap();
    let session = Session::new(Identity::default(), Keep::Attended).unwrap();
    coord.acquire(&session, &Ask::all(vec![key.clone()])).await.unwrap();
    coord.break_lock(&key, "stuck", "ann").await.unwrap();
    let [entry] = entries(&coord).await.try_into().unwrap();
    assert_eq!((entry.act.as_str(), entry.on.as_str()), ("break", "deploy://api"));
    assert_eq!(entry.touches, [session.id().as_str()]);
    assert!(matches!(coord.break_lock(&key, "stuck", "ann").await, Err(Denied::NotHeld)));
    assert_eq!(entries(&coord).await.len(), 1);
}

#[tokio::test]
async fn what_earlier_versions_wrote_is_shown_and_is_in_no_chain() {
    let coord = coord();
    let old =
        br#"{"act":"break","key":"deploy://api","by":"ada","reason":"stuck","holders":["s"],"at_ms":7}"#;
    write(&coord, "audit/0190-old", Write::Put(old.to_vec(), Stamp::New)).await;
    acted(&coord, 1).await;
    let unchained = coord.audit_unchained().await.unwrap();
    assert_eq!(unchained.len(), 1);
    assert_eq!((unchained[0].by.as_str(), unchained[0].at_ms), ("ada", 7));
    assert_eq!(coord.breakings(&Key::parse("deploy://api").unwrap()).await.unwrap(), unchained);
    assert_eq!(coord.audit_check(None).await.unwrap().unwrap().number, 1);
}

#[tokio::test]
async fn a_record_that_was_changed_removed_or_put_in_is_found() {
    let changed = coord();
    acted(&changed, 5).await;
    let mut entry = entries(&changed).await[2].clone();
    entry.on = "something else".to_owned();
    write(&changed, &place(3), Write::Put(serde_json::to_vec(&entry).unwrap(), Stamp::New)).await;
    assert_eq!(changed.audit_check(None).await.unwrap(), Err(Break::Changed(3)));

    let removed = coord();
    acted(&removed, 5).await;
    write(&removed, &place(2), Write::Delete).await;
    assert_eq!(removed.audit_check(None).await.unwrap(), Err(Break::Missing(2)));

    let inserted = coord();
    acted(&inserted, 5).await;
    let entry = serde_json::to_vec(&entries(&inserted).await[0]).unwrap();
    write(&inserted, &place(9), Write::Put(entry, Stamp::New)).await;
    assert_eq!(inserted.audit_check(None).await.unwrap(), Err(Break::AfterTheEnd(9)));

    let garbage = coord();
    acted(&garbage, 2).await;
    write(&garbage, &place(2), Write::Put(b"{".to_vec(), Stamp::New)).await;
    assert_eq!(garbage.audit_check(None).await.unwrap(), Err(Break::Unreadable(2)));
}

#[tokio::test]
async fn an_end_that_was_cut_off_is_found() {
    let coord = coord();
    acted(&coord, 5).await;
    let noted = coord.audit_check(None).await.unwrap().unwrap();
    write(&coord, &place(5), Write::Delete).await;
    assert_eq!(coord.audit_check(None).await.unwrap(), Err(Break::Missing(5)));
    // With the head rewritten to match, only whoever noted the end can tell.
    let shorter = serde_json::to_vec(&entries(&coord).await[3].head()).unwrap();
    write(&coord, "audit/head", Write::Put(shorter, Stamp::New)).await;
    assert_eq!(coord.audit_check(None).await.unwrap().unwrap().number, 4);
    assert_eq!(coord.audit_check(Some(noted)).await.unwrap(), Err(Break::Missing(5)));
}

#[tokio::test]
async fn a_lost_head_overwrites_nothing_and_acts_go_on() {
    let coord = coord();
    acted(&coord, 3).await;
    let before = entries(&coord).await;
    write(&coord, "audit/head", Write::Delete).await;
    assert_eq!(coord.audit_check(None).await.unwrap(), Err(Break::NoHead));
    coord.audit(act(&ann(), "reload", "the project")).await.unwrap();
    let after = entries(&coord).await;
    assert_eq!(after[..3], before[..]);
    assert_eq!(coord.audit_check(None).await.unwrap(), Ok(after[3].head()));
}
