//! The drill with real processes, on every kind of store, and on a guard that ignores fences.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_core::lock::{Fence, Ttl};
use bell_e2e::{Etcd, Postgres, Redis};
use bell_locks::guard::store::{GuardError, StoreGuard};
use bell_locks::open::open_store;
use bell_store::Store;
use bell_verify::drill::{Drill, Guard, Report, guard, work};

/// What a process of the drill finds in its environment.
const URL: &str = "BELL_TEST_DRILL_URL";
const SCOPE: &str = "BELL_TEST_DRILL_SCOPE";
const GUARD: &str = "BELL_TEST_DRILL_GUARD";

const FLAWED: &str = "flawed";
const SOUND: &str = "sound";

/// Lets every write through.
struct Flawed(StoreGuard);

#[async_trait]
impl Guard for Flawed {
    async fn write(&self, resource: &str, fence: Fence, value: &[u8]) -> Result<(), GuardError> {
        self.0.forget(resource).await?;
        self.0.write(resource, fence, value).await
    }
}

/// No test: what this program does when a drill has started it once more.
#[tokio::test]
async fn worker() {
    let Ok(url) = std::env::var(URL) else { return };
    let scope = std::env::var(SCOPE).unwrap();
    let store = open_store(&url).await.unwrap();
    let guard = guard(&store, &scope);
    match std::env::var(GUARD).as_deref() {
        Ok(FLAWED) => work(&store, &scope, &Flawed(guard)).await.unwrap(),
        _ => work(&store, &scope, &guard).await.unwrap(),
    }
}

fn this_program(url: &str, scope: &str, guard: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "a drill needs processes")]
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "worker", "--nocapture", "--test-threads=1"]);
    program.env(URL, url).env(SCOPE, scope).env(GUARD, guard);
    program
}

async fn drilled(url: &str, kind: &'static str) -> (Report, Arc<dyn Store>) {
    let store = open_store(url).await.unwrap();
    let (ttl, url) = (Ttl::new(Duration::from_secs(2)).unwrap(), url.to_owned());
    let drill = Drill::new(Arc::clone(&store), 1, ttl, move |scope: &str| this_program(&url, scope, kind));
    let drill = match kind {
        FLAWED => drill.guarded_by(|guard| Arc::new(Flawed(guard))),
        _ => drill,
    };
    let report = drill.run(|_| {}).await.unwrap();
    drill.clean().await.unwrap();
    (report, store)
}

/// No stale write gets through, and nothing is left behind.
async fn passes(url: &str) {
    let (report, store) = drilled(url, SOUND).await;
    assert!(report.passed, "{report:#?}");
    assert_eq!((report.stale_writes, report.got_through), (3, 0), "{report:#?}");
    assert!(store.scan("", "", 10).await.unwrap().records.is_empty());
}

#[tokio::test]
async fn no_stale_write_gets_through_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    passes(&format!("sqlite:{}", folder.path().join("bell.db").display())).await;
}

#[tokio::test]
async fn no_stale_write_gets_through_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    passes(&format!("file:{}", folder.path().join("store").display())).await;
}

#[tokio::test]
async fn no_stale_write_gets_through_on_redis() {
    let server = Redis::start();
    passes(&server.url("bell")).await;
}

#[tokio::test]
async fn no_stale_write_gets_through_on_postgres() {
    let server = Postgres::start();
    passes(&server.url("bell")).await;
}

#[tokio::test]
async fn no_stale_write_gets_through_on_etcd() {
    let server = Etcd::start();
    passes(&server.url("bell")).await;
}

#[tokio::test]
async fn a_guard_that_ignores_fences_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("bell.db").display());
    let (report, _store) = drilled(&url, FLAWED).await;
    assert!(!report.passed, "{report:#?}");
    assert_eq!((report.stale_writes, report.got_through), (3, 3), "{report:#?}");
    let wrong: Vec<_> = report.steps.iter().filter(|step| !step.right).map(|step| &step.what).collect();
    assert!(wrong.iter().any(|what| what.contains("reads something else")), "{wrong:#?}");
}
