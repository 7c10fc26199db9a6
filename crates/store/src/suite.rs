//! The cases every store must pass: the contract of [`Store`], written down as code.
//!
//! A driver writes a [`Fixture`] and `bell_store::store_suite!(MyFixture::new());` in its `tests/suite.rs`, and
//! has one test per case; `tests/memory_suite.rs` of this crate shows all of it.
//!
//! Whoever wants a table instead of tests calls [`run`]. Cases share one storage there, so each keeps to
//! names of its own, fails by itself, and looks at nothing that another case may write.

mod cases;
mod changes;
mod clock;
mod commits;
mod contention;
mod ground;
mod limits;
mod presence;
mod report;
mod scans;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::cases::{CASES, Case};
use self::ground::Ground;
pub use self::report::{Report, Verdict};
use crate::Store;
use crate::error::Result;

/// How long a case may take before it counts as stuck. Far more than any needs, also on a busy machine.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// The storage that a store is tried on.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// Another handle on the same storage, as another process would have where the store allows it.
    async fn open(&self) -> Result<Arc<dyn Store>>;

    /// Whether what was committed is still there after every handle was dropped and one opened again.
    fn survives_reopen(&self) -> bool;
}

/// Tries every case on one storage, one after the other.
pub async fn run(fixture: Arc<dyn Fixture>) -> Report {
    let mut report = Report::default();
    for case in CASES {
        report.add(case.name, run_case(&fixture, case).await);
    }
    report
}

/// Tries one case. A case that panics has failed, and one that hangs fails in the end.
pub async fn run_case(fixture: &Arc<dyn Fixture>, case: &Case) -> Verdict {
    let ground = match Ground::open(Arc::clone(fixture), case.name).await {
        Ok(ground) => ground,
        Err(stop) => return stop.into(),
    };
    let mut trial = tokio::spawn((case.run)(ground));
    match tokio::time::timeout(CASE_LIMIT, &mut trial).await {
        Ok(Ok(done)) => done.into(),
        Ok(Err(end)) => Verdict::Failed(format!("the case panicked: {end}")),
        Err(_) => {
            trial.abort();
            Verdict::Failed(format!("no end after {} s", CASE_LIMIT.as_secs()))
        }
    }
}

/// Tries the case of this name: the body of a test made by [`store_suite!`](crate::store_suite).
///
/// # Panics
/// If the case fails or there is none of this name, since that is how a test fails.
pub fn test_case(fixture: impl Fixture, name: &str) {
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let verdict = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))
        .and_then(|runtime| {
            let case = CASES.iter().find(|case| case.name == name).ok_or("there is no such case")?;
            Ok(runtime.block_on(run_case(&fixture, case)))
        });
    match verdict {
        Ok(Verdict::Passed) => {}
        Ok(Verdict::Skipped(why)) => eprintln!("skipped: {why}"),
        Ok(Verdict::Failed(why)) | Err(why) => panic!("{name}: {why}"),
    }
}
