//! A run from two machines at once, which know nothing of each other but the store.
//!
//! Both go through the same acts in step: each tells the other in a record what came of its part, and reads what
//! came of the other's. So both know the same, and both come to the same verdict.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `meet` | finding each other |
//! | `talk` | going on in step |
//! | `acts` | what the two do |

mod acts;
mod meet;
mod talk;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bell_coord::Denied;
use bell_store::clock::boottime;

use self::meet::Met;
use self::talk::Talk;
use crate::open::Open;
use crate::process::Program;
use crate::report::Report;
use crate::run::Event;
use crate::site::Site;
use crate::verdict::{Done, Finding, Stop, Verdict};

/// A run with another machine.
pub struct PeerSetting {
    /// The store. The other machine may spell it differently.
    pub url: String,
    /// How it is opened.
    pub open: Arc<dyn Open>,
    /// How other processes are started.
    pub program: Program,
    /// How long to wait for the other machine.
    pub wait: Duration,
}

/// Finds another machine that does the same, and runs with it. `None`: none came.
///
/// Dropped half-way, it leaves its records to the next run.
///
/// # Errors
/// If the store can't be opened or used, or only this process can use it.
pub async fn with_peer(
    setting: PeerSetting,
    tell: &dyn Fn(Event<'_>),
    interrupted: impl Future<Output = ()>,
) -> Result<Option<Report>, Denied> {
    let began = boottime();
    let site = Site::begin(&setting.url, setting.open, setting.program).await?;
    if !site.is_shared() {
        site.end(0).await;
        return Err(Denied::Invalid("no other machine can see a store that lives in one process".to_owned()));
    }
    let leftovers = site.remove_leftovers().await.unwrap_or_default();
    let (met, mut findings) = (std::cell::OnceCell::new(), Vec::new());
    let run = async {
        tell(Event::Waiting(setting.wait));
        if let Some(found) = meet::meet(&site, setting.wait).await? {
            let found = met.get_or_init(|| found);
            together(&site, found, tell, &mut findings).await?;
        }
        Ok::<_, Stop>(())
    };
    let (result, is_whole) = tokio::select! {
        result = run => (result, true),
        () = interrupted => (Ok(()), false),
    };
    meet::leave(&site).await;
    let cleaning = site.end(leftovers).await;
    if let Err(stop) = result {
        findings.push(finding("peer", "the two machines went on in step", &[22], Err(stop), Duration::ZERO));
    } else if met.get().is_none() && is_whole {
        return Ok(None);
    }
    let mut report = Report::new(site.handle().store.info().clone(), findings);
    report.cleaning = cleaning;
    report.interrupted = !is_whole;
    report.took_ms = u64::try_from((boottime() - began).as_millis()).unwrap_or(u64::MAX);
    Ok(Some(report))
}

/// Everything the two do, in the same order on both sides.
async fn together(
    site: &Site,
    met: &Met,
    tell: &dyn Fn(Event<'_>),
    findings: &mut Vec<Finding>,
) -> Result<(), Stop> {
    let handle = site.open_in(&met.scope).await?;
    let talk = Talk::new(handle, met.side);
    let mut add = |name, proves, rules: &[u8], done: Done, began: Duration| {
        let finding = finding(name, proves, rules, done, boottime().saturating_sub(began));
        tell(Event::Ended(&finding));
        findings.push(finding);
    };
    let began = boottime();
    add(
        "clock",
        "a difference between the clocks of the two machines changes nothing",
        &[10],
        acts::clocks(&talk).await,
        began,
    );
    let began = boottime();
    add(
        "exclusion",
        "the two machines never have a key at once",
        &[2, 3, 19],
        acts::race(&talk).await,
        began,
    );
    let began = boottime();
    add(
        "expiry",
        "a lease of one machine goes to the other after its ttl, and its old holder can't write any more",
        &[9, 15, 20],
        acts::expiry(&talk).await,
        began,
    );
    let began = boottime();
    add("push", "a change by one machine arrives at the other", &[6, 22], acts::echo(&talk).await, began);
    talk.end().await
}

fn finding(name: &str, proves: &str, rules: &[u8], done: Done, took: Duration) -> Finding {
    let (verdict, evidence) = match done {
        Ok(evidence) => (Verdict::Passed, evidence),
        Err(stop) => (stop.verdict, stop.why),
    };
    Finding {
        check: name.to_owned(),
        proves: proves.to_owned(),
        rules: rules.iter().map(|rule| format!("L{rule}")).collect(),
        verdict,
        evidence,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}
