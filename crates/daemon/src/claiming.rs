//! Asking for work and starting it: one claim at a time, for every agent of the project that has jobs waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_control::limits::caps;
use bell_coord::Denied;
use bell_coord::work::running::{Claim, Work};
use bell_core::work::agent::AgentName;
use bell_project::agent::Agent;
use tokio_util::sync::CancellationToken;

use crate::lock_waits::{Considered, LockWaits};
use crate::outage_log::OutageLog;
use crate::site::Site;
use crate::start_error::StartError;
use crate::watching::Runs;

/// How often work is looked for although nothing was told: a run elsewhere may have died in silence.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Between two looks, once what waits was found held back twice in a row (by a pause, or by all who may run running): every
/// further job would bring a look that is as much in vain. A run that starts this much later is not noticed.
const HELD_BACK_PAUSE: Duration = Duration::from_millis(10);

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Starts what was claimed.
#[async_trait]
pub trait Starter: Send + Sync + 'static {
    /// Starts the run of a claim, and sees to it from then on.
    async fn start(&self, site: &Arc<Site>, agent: &Arc<Agent>, claim: &Claim) -> Result<(), StartError>;

    /// Returns when this machine may claim again: it waits while what it claimed could not be started.
    async fn may_claim(&self) {}
}

#[async_trait]
impl Starter for Arc<Runs> {
    async fn start(&self, site: &Arc<Site>, agent: &Arc<Agent>, claim: &Claim) -> Result<(), StartError> {
        self.launch(site, agent, claim).await;
        Ok(())
    }

    async fn may_claim(&self) {
        self.pace().may_claim().await;
    }
}

/// Claims and starts jobs until told to stop.
pub async fn keep_claiming(site: Arc<Site>, starter: impl Starter, stop: CancellationToken) {
    let mut waits = LockWaits::new(Arc::clone(&site));
    claim_until(&site, &starter, &mut waits, &stop).await;
    waits.stop().await;
}

async fn claim_until(
    site: &Arc<Site>,
    starter: &impl Starter,
    waits: &mut LockWaits,
    stop: &CancellationToken,
) {
    let mut project = site.project.clone();
    let (mut seen, mut held_back) = (0, 0_u32);
    let (mut asking, mut waiting) = (OutageLog::new("ask for work"), OutageLog::new("wait for work"));
    while !stop.is_cancelled() {
        let sleep = match claim_all(site, starter, waits, stop).await {
            Ok((found, next)) => {
                asking.worked();
                held_back = if found == Found::HeldBack { held_back.saturating_add(1) } else { 0 };
                next
            }
            Err(error) => {
                asking.failed(&error);
                RETRY_AFTER
            }
        };
        if held_back > 1 {
            // What changes meanwhile is not missed: the next wait is for anything later than what was seen.
            tokio::time::sleep(HELD_BACK_PAUSE).await;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(sleep) => {}
            ended = waits.next() => match waits.settle(ended).await {
                Ok(Some((agent, claim))) => start(site, starter, &agent, &claim).await,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "could not run a job that waited for its locks"),
            },
            changed = project.changed() => if changed.is_err() { return },
            changed = site.coord.work_changed(seen) => match changed {
                Ok(revision) => {
                    waiting.worked();
                    seen = revision;
                }
                Err(error) => {
                    waiting.failed(&error);
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            },
        }
    }
}

/// What came of a look at all queues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing waits.
    Nothing,
    /// Jobs wait, and none of them may start now.
    HeldBack,
    /// Jobs, which were claimed.
    Work,
}

/// Claims and starts what may start. Says when to ask again at the latest.
async fn claim_all(
    site: &Arc<Site>,
    starter: &impl Starter,
    waits: &mut LockWaits,
    stop: &CancellationToken,
) -> Result<(Found, Duration), Denied> {
    let (mut found, mut next) = (Found::Nothing, LOOK_EVERY);
    let lines = site.coord.lines().await?.into_iter().filter(|(_, line)| line.waiting > 0);
    let names: Vec<AgentName> = lines.map(|(name, _)| name).collect();
    let loaded = site.loaded();
    let with_locks = |name: &&AgentName| loaded.agents.get(name).is_some_and(|agent| declares_locks(agent));
    waits.keep_only(&names.iter().filter(with_locks).cloned().collect()).await;
    for name in names {
        if found == Found::Nothing {
            found = Found::HeldBack;
        }
        while !stop.is_cancelled() {
            let loaded = site.loaded();
            let Some(agent) = loaded.agents.get(&name) else { break };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = starter.may_claim() => {}
            }
            let considered = if declares_locks(agent) {
                waits.claim(agent).await?
            } else {
                match site.coord.claim(&name, caps(&loaded, agent), &site.node).await? {
                    Work::Job(claim) => Considered::Claimed(claim),
                    Work::Later(wait) => Considered::Nothing(Some(wait)),
                    Work::Idle | Work::Paused(_) | Work::Occupied(_) | Work::Locked(_) => {
                        Considered::Nothing(None)
                    }
                }
            };
            match considered {
                Considered::Claimed(claim) => {
                    found = Found::Work;
                    start(site, starter, agent, &claim).await;
                }
                Considered::Nothing(wait) => {
                    next = next.min(wait.unwrap_or(LOOK_EVERY));
                    break;
                }
            }
        }
    }
    Ok((found, next))
}

fn declares_locks(agent: &Agent) -> bool {
    !agent.settings.locks.is_empty()
}

/// Starts the run of a claim. What can't be said of it to a store that does not answer lapses.
async fn start(site: &Arc<Site>, starter: &impl Starter, agent: &Arc<Agent>, claim: &Claim) {
    tracing::info!(agent = %agent.name, run = %claim.run, job = %claim.id, "claimed");
    let Err(error) = starter.start(site, agent, claim).await else { return };
    tracing::warn!(agent = %agent.name, run = %claim.run, reason = error.reason(), "could not start a run");
    let ended = async {
        let end = error.end(&site.coord, &claim.run).await?;
        site.coord.finish(&claim.run, &end).await
    };
    if let Err(error) = ended.await {
        tracing::warn!(run = %claim.run, %error, "could not record that a run was not started");
    }
}
