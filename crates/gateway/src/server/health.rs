//! Whether anybody is there, and can work.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use bell_api::outcome::Outcome;
use bell_control::store_history::TroubleKind;
use bell_store::{Error, Store, Txn, mount};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;

use super::Server;
use crate::refusal::Answer;

/// A store that takes longer is of no use to whoever waits for a lock.
const STORE_WITHIN: Duration = Duration::from_secs(2);

/// With less than this logs and SQLite's files are about to fail.
const FREE_BYTES_MIN: u64 = 64 * 1_024 * 1_024;

/// That this process answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// `listed`.
    outcome: Outcome,
    /// `alive`.
    status: &'static str,
}

/// Whether this process can work.
#[derive(Serialize, JsonSchema)]
pub(super) struct Readiness {
    /// `listed`, or `unavailable` if something is not in order.
    outcome: Outcome,
    /// `ready` or `not_ready`.
    status: &'static str,
    /// What must be in order.
    checks: Vec<Check>,
}

/// One thing that must be in order. No reason names a host or a path: anybody may ask.
#[derive(Serialize, JsonSchema)]
struct Check {
    /// What is looked at: `store`, `locks` if they are in another store, `renewals` or `disk`.
    check: &'static str,
    /// Whether it is in order.
    ok: bool,
    /// Why, or why not.
    reason: String,
}

/// Needs no key: it says nothing but that this process answers, and whether it can work.
pub(crate) fn open() -> Router<Server> {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
}

async fn alive() -> Answer<Health> {
    Answer(Outcome::Listed, Health { outcome: Outcome::Listed, status: "alive" })
}

async fn ready(State(server): State<Server>) -> Answer<Readiness> {
    let control = server.control();
    let (work, locks) = (control.coord.store(), control.locks.store());
    let mut checks = vec![store("store", work).await];
    if !Arc::ptr_eq(work, locks) {
        checks.push(store("locks", locks).await);
    }
    checks.extend([renewals(&server), disk(&server)]);
    let is_ready = checks.iter().all(|check| check.ok);
    let (outcome, status) =
        if is_ready { (Outcome::Listed, "ready") } else { (Outcome::Unavailable, "not_ready") };
    Answer(outcome, Readiness { outcome, status, checks })
}

async fn store(check: &'static str, store: &Arc<dyn Store>) -> Check {
    // A transaction that writes nothing only asks whether one that writes would be taken.
    match timeout(STORE_WITHIN, store.commit(Txn::default())).await {
        Ok(Ok(_)) => Check::ok(check, "it takes commits"),
        Ok(Err(error)) => Check::not(check, refusal_of(&error)),
        Err(_) => Check::not(check, format!("it did not answer within {} s", STORE_WITHIN.as_secs())),
    }
}

fn refusal_of(error: &Error) -> String {
    match TroubleKind::of(error) {
        Some(trouble) => trouble.summary().to_owned(),
        None => format!("it does not do what it is asked: {:?}", error.kind()),
    }
}

/// The daemon's session is renewed on the same thread, and the same store, as every lease of this process.
fn renewals(server: &Server) -> Check {
    let presence = server.vitals().presence.as_ref();
    match presence.map(|presence| presence.borrow().is_over()) {
        Some(true) => Check::not("renewals", "this node's session could not be renewed in time".to_owned()),
        _ => Check::ok("renewals", "leases are renewed on time"),
    }
}

fn disk(server: &Server) -> Check {
    match mount::free_bytes(server.control().folder.path()) {
        Ok(free) if free < FREE_BYTES_MIN => {
            let (free, least) = (free >> 20, FREE_BYTES_MIN >> 20);
            Check::not("disk", format!("{free} MiB are free where the project lies, and {least} are needed"))
        }
        Ok(_) => Check::ok("disk", "there is room where the project lies"),
        Err(error) => Check::not("disk", format!("it can't be looked at: {}", error.kind())),
    }
}

impl Check {
    fn ok(check: &'static str, reason: &str) -> Self {
        Self { check, ok: true, reason: reason.to_owned() }
    }

    fn not(check: &'static str, reason: String) -> Self {
        Self { check, ok: false, reason }
    }
}
