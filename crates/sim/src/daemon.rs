//! A daemon of the simulated fleet: the real loops for schedules, claims and chores, with runs that are only played.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_control::place::Place;
use bell_coord::work::running::Claim;
use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::Identity;
use bell_core::work::run::End;
use bell_daemon::chores::keep_house;
use bell_daemon::claiming::{Starter, keep_claiming};
use bell_daemon::site::Site;
use bell_daemon::start_error::StartError;
use bell_daemon::timer::keep_time;
use bell_project::agent::Agent;
use bell_project::folder::Folder;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::flaws::Flaw;
use crate::process::Process;
use crate::run::{Warrant, supervise};
use crate::setting::PROJECT;
use crate::world::World;

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Starts a daemon in this process.
pub(crate) fn start(world: Arc<World>, process: &Arc<Process>) {
    let Ok(folder) = Folder::open(Path::new(PROJECT)) else { return };
    let (sender, project) = watch::channel(Arc::clone(&world.setting.loaded));
    let site = Arc::new(Site {
        coord: world.coord(process),
        lock_store: None,
        store_url: "memory:".to_owned(),
        // Never made: a simulated machine has no disk that outlives its processes.
        place: Place::of(&folder.path().join("no-disk")),
        folder,
        project,
        node: process.machine.name.clone(),
        program: PathBuf::new(),
        metrics: bell_daemon::site::Metrics::default(),
    });
    process.spawn(keep_time(Arc::clone(&site)));
    process.spawn(keep_house(Arc::clone(&site)));
    if world.flaw == Some(Flaw::EagerReaper) {
        process.spawn(end_the_living(site.coord.clone(), Arc::clone(process)));
    }
    process.spawn(be_there(site.coord.clone(), site.node.clone()));
    let launcher = Launcher { world, process: Arc::clone(process) };
    process.spawn(async move {
        keep_claiming(site, launcher, CancellationToken::new()).await;
        // The project never changes here, but whoever waits for that must not find its teller gone.
        drop(sender);
    });
}

/// Shows that the daemon is there, and again after it was stopped for longer than its session lasts.
async fn be_there(coord: Coord, node: String) {
    loop {
        match show(&coord, &node).await {
            Ok(session) => session.over().await,
            Err(_) => sleep(RETRY_AFTER).await,
        }
    }
}

async fn show(coord: &Coord, node: &str) -> Result<Session, Denied> {
    let key = Key::parse("bell://fleet/nodes").map_err(|error| Denied::Invalid(error.to_string()))?;
    let who = Identity { node: Some(node.to_owned()), ..Identity::default() };
    let session = Session::new(who, Keep::Attended)?;
    coord.acquire(&session, &Ask::new(key).shared().ttl(Ttl::MAX)).await?;
    Ok(session)
}

/// Starts runs as simulated processes beside the daemon, and records their end if they could not.
struct Launcher {
    world: Arc<World>,
    process: Arc<Process>,
}

#[async_trait]
impl Starter for Launcher {
    async fn start(&self, site: &Arc<Site>, agent: &Arc<Agent>, claim: &Claim) -> Result<(), StartError> {
        if self.world.weather.storms() && self.process.chance.one_in(40) {
            let reason = "start it: no process could be made".to_owned();
            let is_agent = self.process.chance.one_in(4);
            return Err(if is_agent { StartError::Agent(reason) } else { StartError::Transient(reason) });
        }
        let process = self.world.process(&self.process.machine, &format!("run-{}", claim.run));
        let (exit, exited) = oneshot::channel();
        let warrant =
            Warrant { agent: agent.name.clone(), run: claim.run.clone(), token: claim.session.token(), exit };
        process.spawn(supervise(Arc::clone(&self.world), Arc::clone(&process), warrant));
        let (coord, run) = (site.coord.clone(), claim.run.clone());
        self.process.spawn(async move {
            // A supervisor that was killed says nothing.
            let end = exited.await.unwrap_or(End::Lost);
            let _ = coord.finish(&run, &end).await;
        });
        Ok(())
    }
}

/// The wrong step of [`Flaw::EagerReaper`].
async fn end_the_living(coord: Coord, process: Arc<Process>) {
    loop {
        sleep(process.chance.ms(1_000, 4_000)).await;
        if let Ok(pool) = coord.pool().await
            && let Some(slot) = pool.slots.first()
        {
            let _ = coord.finish(&slot.run, &End::Lost).await;
        }
    }
}
