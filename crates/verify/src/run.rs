//! A run: the checks in their lanes, within a limit of time, and everything removed afterwards.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bell_coord::Denied;
use bell_store::clock::boottime;

use crate::checks::{CHECKS, Check, Lane, Needs};
use crate::ground::Ground;
use crate::open::Open;
use crate::process::Program;
use crate::report::Report;
use crate::site::{CLEAN_WITHIN, Site};
use crate::verdict::{Finding, Stop, Verdict};

/// What is kept back from the limit for cleaning up, as a part of it: as a rule it takes a moment, and at the most
/// [`CLEAN_WITHIN`].
const FOR_CLEANING_PART: u32 = 5;

/// How long a store that works takes to tell the time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// What fits into a minute.
    Usual,
    /// More processes and many more rounds.
    Thorough,
}

impl Effort {
    /// How many times as long to go on with what can go on for ever.
    pub(crate) fn times(self) -> u32 {
        match self {
            Self::Usual => 1,
            Self::Thorough => 12,
        }
    }

    /// The time that a run takes at the most, if nobody says.
    pub fn limit(self) -> Duration {
        match self {
            Self::Usual => Duration::from_secs(60),
            Self::Thorough => Duration::from_secs(600),
        }
    }
}

/// What to look at, and how.
pub struct Setting {
    /// The store.
    pub url: String,
    /// How processes open it.
    pub open: Arc<dyn Open>,
    /// How other processes are started.
    pub program: Program,
    /// How much is tried.
    pub effort: Effort,
    /// When it has to be over, cleaning included.
    pub limit: Duration,
    /// The names of the checks to run; empty: all.
    pub only: Vec<String>,
}

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many records of runs that were killed have been removed.
    Leftovers(usize),
    /// Another machine is waited for, for so long at the most.
    Waiting(Duration),
    /// A check has begun.
    Began(&'static Check),
    /// A check has ended.
    Ended(&'a Finding),
}

/// Runs the checks on a store, until they are over or `interrupted` is, and removes everything it wrote.
///
/// Dropped half-way, it leaves its records to the next run.
///
/// # Errors
/// If the store can't be opened or used at all. Nothing is left in it then.
pub async fn verify(
    setting: Setting,
    tell: &dyn Fn(Event<'_>),
    interrupted: impl Future<Output = ()>,
) -> Result<Report, Denied> {
    let began = boottime();
    let Setting { url, open, program, effort, limit, only } = setting;
    let site = Arc::new(Site::begin(&url, open, program).await?);
    let wanted = |check: &&Check| only.is_empty() || only.iter().any(|name| name == check.name);
    let run = Run {
        site: Arc::clone(&site),
        effort,
        end: began + limit.saturating_sub(CLEAN_WITHIN.min(limit / FOR_CLEANING_PART)),
        checks: CHECKS.iter().filter(wanted).collect(),
        tell,
        findings: RefCell::default(),
        is_gone: Cell::new(false),
    };
    let leftovers = site.remove_leftovers().await.unwrap_or_default();
    if leftovers > 0 {
        tell(Event::Leftovers(leftovers));
    }
    let is_whole = tokio::select! {
        () = run.all() => true,
        () = interrupted => false,
    };
    let (checks, findings) = (run.checks, run.findings.into_inner());
    let info = site.handle().store.info().clone();
    let mut report = Report::new(info, in_order(&checks, findings));
    report.interrupted = !is_whole;
    report.cleaning = site.end(leftovers).await;
    report.took_ms = u64::try_from((boottime() - began).as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

struct Run<'a> {
    site: Arc<Site>,
    effort: Effort,
    end: Duration,
    checks: Vec<&'static Check>,
    tell: &'a dyn Fn(Event<'_>),
    findings: RefCell<Vec<Finding>>,
    /// The store has stopped answering.
    is_gone: Cell<bool>,
}

impl Run<'_> {
    async fn all(&self) {
        let [working, watching, apart] = Lane::ALL.map(|lane| self.lane(lane));
        tokio::join!(working, watching, apart);
    }

    async fn lane(&self, lane: Lane) {
        let checks: Vec<&'static Check> =
            self.checks.iter().copied().filter(|check| check.lane == lane).collect();
        for (place, check) in checks.iter().enumerate() {
            let weights: u32 = checks[place..].iter().map(|check| check.weight).sum();
            let left = self.end.saturating_sub(boottime());
            self.check(check, boottime() + left * check.weight / weights.max(1)).await;
        }
    }

    /// Runs one check, whose share of the time ends then.
    async fn check(&self, check: &'static Check, until: Duration) {
        (self.tell)(Event::Began(check));
        let began = boottime();
        let result = match self.obstacle(check).await {
            Some(stop) => Err(stop),
            None => {
                let ground = Ground::new(Arc::clone(&self.site), check.name, self.effort, until);
                let left = self.end.saturating_sub(boottime());
                let done = tokio::time::timeout(left, (check.run)(ground)).await;
                done.unwrap_or_else(|_| Err(Stop::not_run(format!("no result after {} s", left.as_secs()))))
            }
        };
        let (verdict, evidence) = match result {
            Ok(evidence) => (Verdict::Passed, evidence),
            Err(stop) => (stop.verdict, stop.why),
        };
        let finding = Finding {
            check: check.name.to_owned(),
            proves: check.proves.to_owned(),
            rules: check.rule_names(),
            verdict,
            evidence,
            took_ms: u64::try_from((boottime() - began).as_millis()).unwrap_or(u64::MAX),
        };
        (self.tell)(Event::Ended(&finding));
        self.findings.borrow_mut().push(finding);
    }

    /// Why a check can't run.
    async fn obstacle(&self, check: &Check) -> Option<Stop> {
        let left = self.end.saturating_sub(boottime());
        if check.needs == Needs::Processes && !self.site.is_shared() {
            return Some(Stop::not_applicable("it needs several processes, and this store lives in one"));
        }
        if left < check.least {
            let (needs, left) = (check.least.as_secs(), left.as_secs());
            return Some(Stop::not_run(format!("it needs {needs} s or more, and {left} s were left")));
        }
        if !self.is_gone.get() && self.answers().await.is_err() {
            self.is_gone.set(true);
        }
        self.is_gone.get().then(|| Stop::unavailable("the store has stopped answering"))
    }

    async fn answers(&self) -> Result<(), Stop> {
        let now = tokio::time::timeout(ANSWERS_WITHIN, self.site.handle().store.now());
        now.await.map_err(|_| Stop::unavailable("no answer"))??;
        Ok(())
    }
}

/// The findings in the order of the checks; what was interrupted is among them.
fn in_order(checks: &[&'static Check], findings: Vec<Finding>) -> Vec<Finding> {
    let found = |check: &&'static Check| {
        let known = findings.iter().find(|finding| finding.check == check.name).cloned();
        known.unwrap_or_else(|| Finding {
            check: check.name.to_owned(),
            proves: check.proves.to_owned(),
            rules: check.rule_names(),
            verdict: Verdict::NotRun,
            evidence: "interrupted".to_owned(),
            took_ms: 0,
        })
    };
    checks.iter().map(found).collect()
}
