//! The lock contract as cases that any backend can be tried on.
//!
//! A backend's tests need three lines and a [`Setup`]; two setups come with the library:
//!
//! ```no_run
//! use bell_locks::conformance::AtUrl;
//! bell_locks::lock_conformance!(AtUrl::in_folder("sqlite", "locks.db"));
//! ```
//!
//! The answer is a table of the contract's rules, L1 to L24, with pass or fail and what was seen. What a
//! backend does not claim in its [`Capabilities`](crate::Capabilities) is «not applicable», and the table
//! says why: nothing passes silently. Where the backend has a URL, the cases also use processes that are
//! killed, paused, raced against each other and given a wrong clock.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `report` | rules, verdicts, the table |
//! | `cases` | which case is about which rule, and what it needs |
//! | `ground` | what a case stands on |
//! | `faulty` | a backend that fails on demand |
//! | `process`, `worker` | other processes, seen from here and from inside |
//! | all others | the cases, by theme |

mod breaking;
mod busy;
mod cases;
mod deadlock;
mod ending;
mod expiry;
mod failing;
mod faulty;
mod fences;
mod granting;
mod ground;
mod holding;
mod keys;
mod outcomes;
mod pausing;
mod process;
mod processes;
mod promises;
mod queue;
mod reading;
mod repeating;
mod report;
mod sessions;
mod several;
mod worker;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_store::clock::boottime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::cases::{CASES, Case, When};
use self::ground::{Ground, Stop};
use self::process::Program;
pub use self::report::{Report, Row, Rule, Verdict};
pub use self::worker::{is_worker, work};
use crate::backend::LockBackend;
use bell_coord::Denied;

/// How long a case may take before it counts as stuck. Far more than any needs, also on a busy machine.
const CASE_LIMIT: Duration = Duration::from_secs(180);

/// Cases at the same time. Most of them wait; more would only disturb those that measure.
const AT_ONCE: usize = 12;

/// Handles that cases share: two programs, and one more.
const HANDLES: usize = 3;

/// The storage that a backend is tried on.
#[async_trait]
pub trait Setup: Send + Sync + 'static {
    /// A further handle on the same storage, as another program would have.
    ///
    /// # Errors
    /// If it can't be opened.
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied>;

    /// What another process opens to share the storage; `None`: only this process can.
    fn url(&self) -> Option<String> {
        None
    }

    /// Makes the scheme of [`Self::url`] known to this process with [`crate::register`]. Called in every
    /// process that takes part.
    fn register(&self) {}
}

/// A backend that is opened by its URL, by this process and by others.
pub struct AtUrl {
    url: String,
    /// Removed with everything in it once the suite is over.
    _folder: Option<tempfile::TempDir>,
}

impl AtUrl {
    /// The backend at this URL, of a built-in or registered scheme.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), _folder: None }
    }

    /// A backend that keeps its locks in a place of this name, in a new folder that is removed afterwards.
    ///
    /// # Panics
    /// If there can be no such folder, since there is nothing to try then.
    pub fn in_folder(scheme: &str, name: &str) -> Self {
        if is_worker() {
            // It is told what to open, and a folder of its own would stay behind when it is killed.
            return Self::new("");
        }
        match tempfile::Builder::new().prefix("bell-conformance-").tempdir() {
            Ok(folder) => {
                let url = format!("{scheme}:{}", folder.path().join(name).display());
                Self { url, _folder: Some(folder) }
            }
            Err(error) => panic!("could not make a folder: {error}"),
        }
    }
}

#[async_trait]
impl Setup for AtUrl {
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied> {
        crate::open::open(&self.url).await
    }

    fn url(&self) -> Option<String> {
        Some(self.url.clone())
    }
}

/// A backend of one process: all handles are the one.
pub struct InProcess(Arc<dyn LockBackend>);

impl InProcess {
    /// Tries this backend.
    pub fn new(backend: impl LockBackend) -> Self {
        Self(Arc::new(backend))
    }
}

#[async_trait]
impl Setup for InProcess {
    async fn open(&self) -> Result<Arc<dyn LockBackend>, Denied> {
        Ok(Arc::clone(&self.0))
    }
}

/// Every case of the suite in a report's order: the rule it is about, and what must be so.
pub fn cases() -> Vec<(Rule, String)> {
    let mut cases: Vec<_> = CASES.iter().map(|case| (case.rule, case.sentence())).collect();
    cases.sort_by_key(|(rule, _)| *rule);
    cases
}

/// Tries every case.
///
/// Other processes are this program started anew, so its `main` must begin with
/// `if is_worker() { return work(&setup) }`; see [`is_worker`]. [`lock_conformance!`](crate::lock_conformance)
/// does that for tests.
pub async fn run(setup: Arc<dyn Setup>) -> Report {
    run_cases(setup, Program::itself(), |_| true).await
}

/// Tries the cases of one rule, in this process only.
pub async fn run_rule(setup: Arc<dyn Setup>, rule: Rule) -> Report {
    run_cases(setup, Program::itself(), |case| case.rule == rule && !case.needs_processes()).await
}

/// The body of the test made by [`lock_conformance!`](crate::lock_conformance). `worker` is the full path of
/// the other test made by it.
///
/// # Panics
/// If a case fails, since that is how a test fails.
#[doc(hidden)]
pub fn test(setup: impl Setup, worker: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    match runtime {
        Ok(runtime) => {
            let program = Program::this_test(worker);
            let report = runtime.block_on(run_cases(Arc::new(setup), program, |_| true));
            println!("{report}");
            report.assert_passed();
        }
        Err(error) => panic!("could not start a runtime: {error}"),
    }
}

async fn run_cases(setup: Arc<dyn Setup>, program: Program, wanted: impl Fn(&Case) -> bool) -> Report {
    setup.register();
    let mut report = Report::default();
    for cases in phases(wanted) {
        match open(&setup).await {
            Ok(handles) => {
                let ground = Ground::new(Arc::clone(&setup), handles, program.clone());
                run_phase(&mut report, ground, cases).await;
            }
            Err(denied) => {
                let why = Verdict::Failed(format!("could not open the backend: {denied}"));
                cases.iter().for_each(|(place, case)| report.add(*place, case, why.clone(), Duration::ZERO));
            }
        }
    }
    report
}

type Placed = (usize, &'static Case);

/// Cases that can run at the same time; each phase opens the backend anew.
fn phases(wanted: impl Fn(&Case) -> bool) -> Vec<Vec<Placed>> {
    let cases: Vec<Placed> = CASES.iter().enumerate().filter(|(_, case)| wanted(case)).collect();
    let of = |when| cases.iter().copied().filter(move |(_, case)| case.when == when);
    let alone = of(When::Alone).map(|case| vec![case]);
    let last = of(When::Last).map(|case| vec![case]);
    let together = of(When::Together).collect::<Vec<_>>();
    alone.chain([together]).chain(last).filter(|phase| !phase.is_empty()).collect()
}

async fn open(setup: &Arc<dyn Setup>) -> Result<Vec<Arc<dyn LockBackend>>, Denied> {
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(setup.open().await?);
    }
    Ok(handles)
}

async fn run_phase(report: &mut Report, ground: Ground, cases: Vec<Placed>) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (place, case) in cases {
        let (ground, turns) = (ground.of_case(case), Arc::clone(&turns));
        running.spawn(async move {
            let _turn = turns.acquire_owned().await;
            let started = boottime();
            let verdict = run_case(ground, case).await;
            (place, case, verdict, boottime().saturating_sub(started))
        });
    }
    // A case that needs the storage to itself lets go of these handles.
    drop(ground);
    while let Some(done) = running.join_next().await {
        if let Ok((place, case, verdict, took)) = done {
            report.add(place, case, verdict, took);
        }
    }
}

/// Tries one case. A case that panics has failed, and one that hangs fails in the end.
async fn run_case(ground: Ground, case: &'static Case) -> Verdict {
    if let Some(why) = case.not_applicable(&ground) {
        return Verdict::NotApplicable(why);
    }
    let mut trial = tokio::spawn((case.run)(ground));
    match tokio::time::timeout(CASE_LIMIT, &mut trial).await {
        Ok(Ok(Ok(evidence))) => Verdict::Passed(evidence),
        Ok(Ok(Err(Stop(why)))) => Verdict::Failed(why),
        Ok(Err(end)) => Verdict::Failed(format!("the case panicked: {end}")),
        Err(_) => {
            trial.abort();
            Verdict::Failed(format!("no end after {} s", CASE_LIMIT.as_secs()))
        }
    }
}

/// Makes a test that tries a backend and prints the table, and a second one that does nothing unless the
/// first starts it as another process. The argument is an expression for a
/// [`Setup`](crate::conformance::Setup). Once in a module.
#[macro_export]
macro_rules! lock_conformance {
    ($setup:expr) => {
        #[test]
        fn the_backend_keeps_the_lock_contract() {
            $crate::conformance::test($setup, concat!(module_path!(), "::conformance_worker"));
        }

        #[test]
        fn conformance_worker() {
            if $crate::conformance::is_worker() {
                $crate::conformance::work(&$setup);
            }
        }
    };
}
