//! Asking for work and starting it: one claim at a time, for every agent of the project that has jobs waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_control::limits::caps;
use bell_coord::Denied;
use bell_coord::work::running::{Claim, Work};
use bell_core::work::run::End;
use bell_project::agent::Agent;
use tokio_util::sync::CancellationToken;

use crate::site::Site;
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
    /// Starts the run of a claim, and sees to it from then on. The words of a refusal read after «could not».
    async fn start(&self, site: &Arc<Site>, agent: &Arc<Agent>, claim: &Claim) -> Result<(), String>;
}

#[async_trait]
impl Starter for Arc<Runs> {
    async fn start(&self, site: &Arc<Site>, agent: &Arc<Agent>, claim: &Claim) -> Result<(), String> {
        self.launch(site, agent, claim).await;
        Ok(())
    }
}

/// Claims and starts jobs until told to stop.
pub async fn keep_claiming(site: Arc<Site>, starter: impl Starter, stop: CancellationToken) {
    let mut project = site.project.clone();
    let (mut seen, mut held_back) = (0, 0_u32);
    while !stop.is_cancelled() {
        let sleep = match claim_all(&site, &starter, &stop).await {
            Ok(found) => {
                held_back = if found == Found::HeldBack { held_back.saturating_add(1) } else { 0 };
                LOOK_EVERY
            }
            Err(error) => {
                tracing::warn!(%error, "could not ask for work");
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
            changed = project.changed() => if changed.is_err() { return },
            changed = site.coord.work_changed(seen) => match changed {
                Ok(revision) => seen = revision,
                Err(error) => {
                    tracing::warn!(%error, "could not wait for work");
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

async fn claim_all(
    site: &Arc<Site>,
    starter: &impl Starter,
    stop: &CancellationToken,
) -> Result<Found, Denied> {
    let mut found = Found::Nothing;
    for (name, _) in site.coord.lines().await?.into_iter().filter(|(_, line)| line.waiting > 0) {
        if found == Found::Nothing {
            found = Found::HeldBack;
        }
        while !stop.is_cancelled() {
            let loaded = site.loaded();
            let Some(agent) = loaded.agents.get(&name) else { break };
            let Work::Job(claim) = site.coord.claim(&name, caps(&loaded, agent), &site.node).await? else {
                break;
            };
            found = Found::Work;
            tracing::info!(agent = %name, run = %claim.run, job = %claim.id, "claimed");
            if let Err(reason) = starter.start(site, agent, &claim).await {
                tracing::warn!(agent = %name, run = %claim.run, reason, "could not start a run");
                // A supervisor that was killed right after the agent began could not say so.
                let run = site.coord.run(&claim.run).await?.map(|(run, _)| run);
                let has_begun = run.is_some_and(|run| run.begun.is_some());
                let end = if has_begun { End::Lost } else { End::Unstartable { reason } };
                site.coord.finish(&claim.run, &end).await?;
            }
        }
    }
    Ok(found)
}
