//! A sample of the fault matrix, and that its checker is not blind. All of it: `fault-matrix`.

use std::path::Path;
use std::time::Duration;

use bell_proofs::cell::{self, Settings};
use bell_proofs::flaw::Flaw;
use bell_proofs::matrix::{Fault, Store};
use bell_proofs::result::{Outcome, Verdict};

fn run(store: Store, fault: Fault, flaw: Option<Flaw>) -> Outcome {
    let program = Path::new(env!("CARGO_BIN_EXE_fault-matrix"));
    // Longer than any short lease.
    let settings = Settings { program, lasts: Duration::from_millis(2_500), flaw, histories: None };
    cell::run(store, fault, settings).expect("a cell that can be run")
}

fn holds(store: Store, fault: Fault) {
    let outcome = run(store, fault, None);
    assert_eq!(outcome.verdict, Verdict::Held, "{:#?}", outcome.seen);
}

fn is_caught(flaw: Flaw, by: &[&str]) {
    let outcome = run(Store::Sqlite, Fault::ClientStop, Some(flaw));
    assert_eq!(outcome.verdict, Verdict::Broken, "{flaw:?} was not noticed");
    let noticed =
        |invariant: &&str| outcome.seen.iter().any(|seen| seen.starts_with(&format!("{invariant} ")));
    assert!(by.iter().all(noticed), "{by:?} should have noticed {flaw:?}: {:#?}", outcome.seen);
}

#[test]
fn sqlite_holds_while_clients_are_killed() {
    holds(Store::Sqlite, Fault::ClientKill);
}

#[test]
fn a_folder_holds_while_clients_are_stopped() {
    holds(Store::File, Fault::ClientStop);
}

#[test]
fn redis_holds_while_its_server_is_killed() {
    holds(Store::Redis, Fault::ServerKill);
}

#[test]
fn redis_holds_while_some_clients_are_cut_off() {
    holds(Store::Redis, Fault::CutBoth);
}

#[test]
fn postgres_holds_while_its_server_is_killed() {
    holds(Store::Postgres, Fault::ServerKill);
}

#[test]
fn postgres_holds_while_connections_are_reset() {
    holds(Store::Postgres, Fault::Reset);
}

#[test]
fn etcd_holds_while_some_clients_are_cut_off() {
    holds(Store::Etcd, Fault::CutBoth);
}

#[test]
fn a_sink_that_looks_at_no_fence_is_noticed() {
    is_caught(Flaw::UnguardedSink, &["sink"]);
}

#[test]
fn leases_that_end_early_are_noticed() {
    is_caught(Flaw::EarlyExpiry, &["expiry", "linear"]);
}

#[test]
fn a_key_that_is_granted_twice_is_noticed() {
    is_caught(Flaw::DoubleGrant, &["fences", "exclusion"]);
}

#[test]
fn a_release_that_is_lost_is_noticed() {
    is_caught(Flaw::LostRelease, &["release", "linear"]);
}

#[test]
fn fences_that_start_anew_are_noticed() {
    is_caught(Flaw::OwnFences, &["fences"]);
}
