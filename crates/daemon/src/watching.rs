//! Runs of this machine until their end, and finding them again after the daemon was gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bell_coord::Denied;
use bell_coord::work::running::Claim;
use bell_core::work::run::{End, RunId};
use bell_project::agent::Agent;
use bell_project::settings::IsolationLevel;
use bell_runner::adopt::{Adopted, adopt};
use bell_runner::handle::SupervisorHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::launching::launch;
use crate::site::Site;
use crate::start_error::StartError;
use crate::start_pace::StartPace;
use crate::supervisor::end_of;
use crate::traces::Traces;
use crate::under_way::{OneMore, UnderWay};

/// Runs that are started at the same time. Starting one is mostly waiting: for a disk, for the kernel, for a process
/// to begin. More than these would only take turns.
const STARTING_MAX: u32 = 4;

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The runs that this machine watches over.
pub(crate) struct Runs {
    running: Mutex<BTreeMap<RunId, Arc<SupervisorHandle>>>,
    count: watch::Sender<usize>,
    starting: Arc<Semaphore>,
    pace: StartPace,
    traces: Traces,
    under_way: UnderWay,
}

impl Runs {
    /// None yet. Those that may not define the fleet are counted in `under_way`.
    pub(crate) fn new(under_way: UnderWay) -> Self {
        let starting = Arc::new(Semaphore::new(STARTING_MAX as usize));
        Self {
            running: Mutex::default(),
            count: watch::Sender::default(),
            starting,
            pace: StartPace::default(),
            traces: Traces::from_env(),
            under_way,
        }
    }

    /// Starts the run of a claim and watches over it. Returns when it is on its way, which is at once unless many are.
    pub(crate) async fn launch(self: &Arc<Self>, site: &Arc<Site>, agent: &Arc<Agent>, claim: &Claim) {
        // Nobody ever closes it.
        let Ok(turn) = Arc::clone(&self.starting).acquire_owned().await else { return };
        let (runs, site) = (Arc::clone(self), Arc::clone(site));
        let (agent, claim) = (Arc::clone(agent), claim.clone());
        let counted = may_not_define(&agent).then(|| self.under_way.one_more());
        tokio::spawn(async move {
            match launch(&site, &agent, &claim).await {
                Ok(handle) => {
                    runs.pace.started();
                    runs.watch(&site, claim.run.clone(), handle, counted);
                }
                Err(error) => {
                    tracing::warn!(agent = %agent.name, run = %claim.run, reason = error.reason(), "could not start a run");
                    if matches!(error, StartError::Transient(_)) {
                        runs.pace.not_started();
                    }
                    give_up(&site, &claim.run, &error, turn).await;
                }
            }
        });
    }

    /// How fast this machine may claim.
    pub(crate) fn pace(&self) -> &StartPace {
        &self.pace
    }

    /// Returns when nothing is being started any more: what was, is watched over.
    pub(crate) async fn all_started(&self) {
        // Who has every turn knows that nobody else has one.
        let _ = self.starting.acquire_many(STARTING_MAX).await;
    }

    /// Watches over a run until it is over, and makes sure that its end is on record.
    fn watch(
        self: &Arc<Self>,
        site: &Arc<Site>,
        run: RunId,
        handle: SupervisorHandle,
        counted: Option<OneMore>,
    ) {
        let handle = Arc::new(handle);
        self.lock().insert(run.clone(), Arc::clone(&handle));
        self.tell();
        let (runs, site) = (Arc::clone(self), Arc::clone(site));
        tokio::spawn(async move {
            let end = match handle.wait().await {
                Ok(exit) => end_of(&exit.reason),
                Err(error) => {
                    tracing::warn!(%run, %error, "could not tell how a run ended");
                    End::Lost
                }
            };
            drop(counted);
            record(&site, &run, &end).await;
            runs.traces.ended(&site.coord, &run).await;
            runs.lock().remove(&run);
            runs.tell();
        });
    }

    /// Looks for what became of this machine's runs while no daemon was there.
    pub(crate) async fn adopt_all(self: &Arc<Self>, site: &Arc<Site>) {
        let slots = match site.coord.pool().await {
            Ok(pool) => pool.slots,
            Err(error) => {
                tracing::warn!(%error, "could not look for runs to adopt");
                return;
            }
        };
        for slot in slots {
            let folder = site.place.run_dir(&slot.run);
            if !folder.exists() {
                continue;
            }
            match adopt(&folder).await {
                Ok(Adopted::Running(handle)) => {
                    tracing::info!(run = %slot.run, "adopted");
                    // Which settings it was started with is not known.
                    self.watch(site, slot.run, handle, Some(self.under_way.one_more()));
                }
                Ok(Adopted::Ended(exit)) => record(site, &slot.run, &end_of(&exit.reason)).await,
                Ok(Adopted::Lost(why)) => {
                    tracing::warn!(run = %slot.run, why, "lost");
                    record(site, &slot.run, &End::Lost).await;
                }
                Err(error) => tracing::warn!(run = %slot.run, %error, "could not adopt a run"),
            }
        }
    }

    /// Returns when nothing runs here any more.
    pub(crate) async fn all_over(&self) {
        // The sender lives as long as this.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Tells every supervisor to stop its run.
    pub(crate) fn interrupt_all(&self) {
        for (run, handle) in self.lock().iter() {
            if let Err(error) = handle.interrupt() {
                tracing::debug!(%run, %error, "could not interrupt a run");
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn tell(&self) {
        let count = self.count();
        self.count.send_replace(count);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<SupervisorHandle>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether runs of an agent are kept from changing what defines the fleet.
fn may_not_define(agent: &Agent) -> bool {
    agent.settings.isolation != IsolationLevel::None && !agent.settings.edits_project
}

/// Ends a run that could not be started. Only this process knows that its agent never ran, so a store that does not
/// answer is asked until it does; the place of the run among those being started is free for others meanwhile.
async fn give_up(site: &Site, run: &RunId, error: &StartError, turn: OwnedSemaphorePermit) {
    let mut turn = Some(turn);
    loop {
        let ended = async {
            let end = error.end(&site.coord, run).await?;
            Ok::<_, Denied>((site.coord.finish(run, &end).await?, end))
        };
        match ended.await {
            Ok((finished, end)) => return tracing::info!(%run, %end, ?finished, "run over"),
            Err(denied) => {
                tracing::warn!(%run, error = %denied, "could not record that a run was not started")
            }
        }
        drop(turn.take());
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Its supervisor has recorded the end, unless it could not reach the store or was killed.
async fn record(site: &Site, run: &RunId, end: &End) {
    match site.coord.finish(run, end).await {
        Ok(finished) => tracing::info!(%run, %end, ?finished, "run over"),
        Err(error) => tracing::warn!(%run, %end, %error, "could not record the end of a run"),
    }
}
