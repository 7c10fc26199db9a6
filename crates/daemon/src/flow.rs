//! From start to stop.
//!
//! ```text
//! project folder ──▶ timer ──▶ coord::fire ──▶ queue ──▶ claiming ──▶ launching ──▶ supervisor ──▶ agent
//!        │                                       ▲                                       │
//!        └── watch ─▶ the project as it is now   └── calls, reruns, retries ◀── coord::finish
//! ```
//! What is due, claimed, begun and ended is in the store, and a run directory tells what was started; so a part that
//! dies takes nothing with it.

use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::Identity;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::problem::Problem;
use bell_project::settings::OnStop;
use bell_project::watch::{Notice, Watch};
use bell_store::info::Info;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::chores::keep_house;
use crate::claiming::keep_claiming;
use crate::place::Place;
use crate::site::Site;
use crate::timer::keep_time;
use crate::watching::Runs;

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The project's folder.
    pub project: PathBuf,
    /// The store, if not the one that the project names.
    pub store: Option<String>,
    /// Bellwether itself.
    pub program: PathBuf,
}

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The project can't be used.
    #[error("could not use the project in {folder}")]
    Project {
        /// Where it is.
        folder: PathBuf,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
    /// Another daemon is there.
    #[error("could not start: a daemon of this machine runs the project in {0} already")]
    Occupied(PathBuf),
    /// The disk refused.
    #[error("could not {doing}: {error}")]
    Disk {
        /// What.
        doing: String,
        /// Why not.
        error: io::Error,
    },
    /// The project asks for something that is not there yet.
    #[error("could not start: {0}")]
    Unsupported(&'static str),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Denied),
}

impl UpError {
    fn disk(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Disk { doing, error }
    }
}

/// A daemon that has started and does its work.
pub struct Daemon {
    site: Arc<Site>,
    runs: Arc<Runs>,
    /// Ticks, retries, lost runs: what makes new work, or finds it.
    sources: JoinSet<()>,
    claiming: JoinSet<()>,
    no_more_claims: CancellationToken,
    /// Shows that this node is there.
    presence: JoinSet<()>,
    leaving: CancellationToken,
    _watch: Watch,
    _occupied: File,
}

/// How a daemon stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Jobs that were taken out of the queue; each can be replayed.
    pub cleared: usize,
    /// Runs that were told to stop.
    pub interrupted: usize,
}

impl Daemon {
    /// Starts everything.
    ///
    /// # Errors
    /// If the project can't be used, another daemon is there, or the store refuses.
    pub async fn start(options: &Options) -> Result<Self, UpError> {
        let project = std::fs::canonicalize(&options.project);
        let project = project.map_err(UpError::disk(format!("find {}", options.project.display())))?;
        let open =
            || Folder::open(&project).map_err(UpError::disk(format!("open {}", options.project.display())));
        let (folder, watched) = (open()?, open()?);
        let loaded = Arc::new(Loaded::load(&folder));
        if loaded.agents.is_empty() {
            let problems = loaded.problems.clone();
            return Err(UpError::Project { folder: options.project.clone(), problems });
        }
        if loaded.settings.locks.is_some() {
            return Err(UpError::Unsupported("locks in another store than the runs are not there yet"));
        }
        let place = Place::of(folder.path());
        place.make().map_err(UpError::disk("make the folder .bell"))?;
        let occupied = place.occupy().map_err(UpError::disk("lock the folder .bell"))?;
        let occupied = occupied.ok_or_else(|| UpError::Occupied(options.project.clone()))?;
        link_command(&place, &options.program).map_err(UpError::disk("link bell for the agents"))?;
        let store_url = store_url(options.store.as_deref(), &loaded, &place);
        let coord = Coord::new(bell_locks::open::open_store(&store_url).await?);
        let node = node_name();
        let presence = show_presence(&coord, &node).await?;
        let (sender, project) = watch::channel(Arc::clone(&loaded));
        let watching = Watch::start(watched, loaded, Notice::Automatic, move |change| {
            tracing::info!(?change.diff, "project changed");
            sender.send_replace(change.loaded);
        })
        .map_err(UpError::disk("watch the project"))?;
        let program = options.program.clone();
        let site = Arc::new(Site { coord, store_url, folder, place, project, node, program });
        Ok(Self::begin(site, presence, watching, occupied).await)
    }

    async fn begin(site: Arc<Site>, presence: Session, watch: Watch, occupied: File) -> Self {
        let runs = Arc::new(Runs::default());
        runs.adopt_all(&site).await;
        let no_more_claims = CancellationToken::new();
        let (mut sources, mut claiming) = (JoinSet::new(), JoinSet::new());
        sources.spawn(keep_time(Arc::clone(&site)));
        sources.spawn(keep_house(Arc::clone(&site)));
        claiming.spawn(keep_claiming(Arc::clone(&site), Arc::clone(&runs), no_more_claims.clone()));
        let leaving = CancellationToken::new();
        let mut shown = JoinSet::new();
        shown.spawn(keep_presence(Arc::clone(&site), presence, leaving.clone()));
        Self {
            site,
            runs,
            sources,
            claiming,
            no_more_claims,
            presence: shown,
            leaving,
            _watch: watch,
            _occupied: occupied,
        }
    }

    /// What the daemon works with.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// What the store promises.
    pub fn store_info(&self) -> &Info {
        self.site.coord.store().info()
    }

    /// Stops: nothing new starts, runs of this machine finish until `hurry` returns or their time is up, and
    /// queues are cleared where the project says so and no other node is there.
    ///
    /// # Errors
    /// If the store can't be reached; the runs have ended all the same.
    pub async fn stop(mut self, hurry: impl Future<Output = ()>) -> Result<Stopped, Denied> {
        self.sources.abort_all();
        self.no_more_claims.cancel();
        // A claim that is under way is carried through: its run is watched over like the others.
        while self.claiming.join_next().await.is_some() {}
        let cleared = self.clear_queues().await;
        let limit = self.site.loaded().settings.stop_timeout.get();
        let finished = tokio::select! {
            () = self.runs.all_over() => true,
            () = hurry => false,
            () = tokio::time::sleep(limit) => false,
        };
        let interrupted = if finished { 0 } else { self.runs.count() };
        if !finished {
            self.runs.interrupt_all();
            self.runs.all_over().await;
        }
        self.leaving.cancel();
        while self.presence.join_next().await.is_some() {}
        Ok(Stopped { cleared: cleared?, interrupted })
    }

    async fn clear_queues(&self) -> Result<usize, Denied> {
        if nodes(&self.site.coord).await? > 1 {
            return Ok(0);
        }
        let mut cleared = 0;
        for (name, agent) in &self.site.loaded().agents {
            if agent.settings.on_stop == OnStop::Clear {
                cleared += self.site.coord.clear(name).await?.len();
            }
        }
        Ok(cleared)
    }
}

/// The URL of a project's store: as given, as the project says, or the one in its folder.
pub fn store_url(given: Option<&str>, loaded: &Loaded, place: &Place) -> String {
    let named = || loaded.settings.store.as_ref().map(|url| url.expose().to_owned());
    given.map(str::to_owned).or_else(named).unwrap_or_else(|| place.default_store())
}

/// Every daemon holds this key, shared: who holds it is who is there.
fn nodes_key() -> Result<Key, Denied> {
    Key::parse("bell://fleet/nodes").map_err(|error| Denied::Invalid(error.to_string()))
}

/// How many daemons are there, on any machine.
///
/// # Errors
/// If the store can't be read.
pub async fn nodes(coord: &Coord) -> Result<usize, Denied> {
    Ok(coord.show(&nodes_key()?).await?.holders.len())
}

async fn show_presence(coord: &Coord, node: &str) -> Result<Session, Denied> {
    let who = Identity {
        node: Some(node.to_owned()),
        pid: Some(std::process::id()),
        label: Some("daemon".to_owned()),
        ..Identity::default()
    };
    let session = Session::new(who, Keep::Attended)?;
    // The session is what counts: the key is as long-lived as can be, and ends with it.
    let ask = Ask::new(nodes_key()?).shared().ttl(Ttl::MAX);
    coord.acquire(&session, &ask).await?;
    Ok(session)
}

/// Stays there until told to leave. A daemon that was stopped for longer than its session lasts comes back.
async fn keep_presence(site: Arc<Site>, mut session: Session, leaving: CancellationToken) {
    loop {
        tokio::select! {
            () = leaving.cancelled() => break,
            () = session.over() => {}
        }
        match show_presence(&site.coord, &site.node).await {
            Ok(again) => session = again,
            Err(error) => {
                tracing::warn!(%error, "could not show that this node is there");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
    if let Err(error) = site.coord.end(&session).await {
        tracing::warn!(%error, "could not say that this node leaves; its session lapses");
    }
}

fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Puts `bell` where agents find it. What is there already is replaced by rename, so that an agent that looks at this
/// moment finds one or the other.
fn link_command(place: &Place, program: &Path) -> io::Result<()> {
    let (link, fresh) = (place.bin().join("bell"), place.bin().join(".bell"));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(program, &fresh)?;
    std::fs::rename(&fresh, &link)
}
