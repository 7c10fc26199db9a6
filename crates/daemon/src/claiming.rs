//! Asking for work and starting it: one claim at a time, for every agent of the project that has jobs waiting.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::Denied;
use bell_coord::work::running::Work;
use bell_core::work::run::End;
use tokio_util::sync::CancellationToken;

use crate::launching::launch;
use crate::site::{Site, caps};
use crate::watching::Runs;

/// How often work is looked for although nothing was told: a run elsewhere may have died in silence.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Claims and starts jobs until told to stop.
pub(crate) async fn keep_claiming(site: Arc<Site>, runs: Arc<Runs>, stop: CancellationToken) {
    let mut project = site.project.clone();
    let mut seen = 0;
    while !stop.is_cancelled() {
        let sleep = match claim_all(&site, &runs, &stop).await {
            Ok(()) => LOOK_EVERY,
            Err(error) => {
                tracing::warn!(%error, "could not ask for work");
                RETRY_AFTER
            }
        };
        tokio::select! {
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

async fn claim_all(site: &Arc<Site>, runs: &Arc<Runs>, stop: &CancellationToken) -> Result<(), Denied> {
    for (name, _) in site.coord.lines().await?.into_iter().filter(|(_, line)| line.waiting > 0) {
        while !stop.is_cancelled() {
            let loaded = site.loaded();
            let Some(agent) = loaded.agents.get(&name) else { break };
            let Work::Job(claim) = site.coord.claim(&name, caps(&loaded, agent), &site.node).await? else {
                break;
            };
            tracing::info!(agent = %name, run = %claim.run, job = %claim.id, "claimed");
            let started = launch(site, agent, &claim).await;
            match started {
                Ok(handle) => runs.watch(site, claim.run.clone(), handle),
                Err(reason) => {
                    tracing::warn!(agent = %name, run = %claim.run, reason, "could not start a run");
                    site.coord.finish(&claim.run, &End::Unstartable { reason }).await?;
                }
            }
        }
    }
    Ok(())
}
