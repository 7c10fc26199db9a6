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
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bell_control::place::Place;
use bell_control::store_history::StoreHistory;
use bell_control::{known, known_stores, nodes};
use bell_coord::{Ask, Coord, Denied, Keep, Session};
use bell_core::lock::Ttl;
use bell_core::session::Identity;
use bell_core::work::agent::AgentName;
use bell_gateway::server::levers::Pace;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::problem::Problem;
use bell_project::settings::OnStop;
use bell_project::stores::{self, ChosenStore, Origin};
use bell_project::watch::{Notice, Watch};
use bell_runner::isolation::{self, Means};
use bell_store::Store;
use bell_store::info::Info;
use bell_store::layers::Metered;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::chores::keep_house;
use crate::claiming::keep_claiming;
use crate::outage_log::OutageLog;
use crate::run_user;
use crate::server::Gate;
use crate::site::{LockStore, Metrics, Site};
use crate::store_watch;
use crate::tallies;
use crate::timer::keep_time;
use crate::under_way::UnderWay;
use crate::watching::Runs;
use crate::wishes::Wishes;

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
    /// The port, if whoever starts the daemon holds it open: requests that come while no daemon is there wait for the next.
    pub port: Option<Arc<TcpListener>>,
}

/// A daemon that was killed holds the lock of its project until the kernel has freed its memory, and a process that it was
/// starting holds it until its program is loaded. Both take far less than this.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Between two tries at that lock.
const OCCUPY_EVERY: Duration = Duration::from_millis(20);

/// Why a daemon does not start.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The project's `config.toml` can't be used.
    #[error("could not use the settings of the project in {folder}")]
    Settings {
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
    /// The port can't be had.
    #[error("could not listen on {address}: {error}")]
    Port {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Other machines would be let in, and nobody said that they should.
    #[error("could not listen on {0}, which other machines can reach: {1}")]
    Exposed(IpAddr, &'static str),
    /// There is nobody whom agents can run as.
    #[error("could not start: {agent}: could not {reason}")]
    NoUser {
        /// The first agent without a user.
        agent: AgentName,
        /// Why there is none.
        reason: String,
    },
    /// The project asks for something that can't be.
    #[error("could not start: {0}")]
    Unsupported(&'static str),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Denied),
}

impl UpError {
    pub(crate) fn disk(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
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
    gate: Gate,
    wishes: Arc<Wishes>,
    /// Takes in what other processes count.
    _counting: JoinSet<()>,
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
    /// If the project's settings can't be used, another daemon is there, or the store refuses.
    pub async fn start(options: &Options) -> Result<Self, UpError> {
        let project = std::fs::canonicalize(&options.project);
        let project = project.map_err(UpError::disk(format!("find {}", options.project.display())))?;
        let open =
            || Folder::open(&project).map_err(UpError::disk(format!("open {}", options.project.display())));
        let (folder, watched) = (open()?, open()?);
        let loaded = Arc::new(known::load_at_start(&folder));
        // Settings that were read in part may lack a cap or name another store: nothing starts with them.
        let problems: Vec<Problem> = loaded.settings_errors().cloned().collect();
        if !problems.is_empty() {
            return Err(UpError::Settings { folder: options.project.clone(), problems });
        }
        check_users(&loaded, folder.path())?;
        let place = Place::of(folder.path());
        place.make().map_err(UpError::disk("make the folder .bell"))?;
        let occupied = occupy(&place).await.map_err(UpError::disk("lock the folder .bell"))?;
        let occupied = occupied.ok_or_else(|| UpError::Occupied(options.project.clone()))?;
        place.sign().map_err(UpError::disk("write into the folder .bell"))?;
        link_commands(&place, &options.program).map_err(UpError::disk("link bell for the agents"))?;
        let named = options.store.as_ref().map(|url| ChosenStore { url: url.clone(), origin: Origin::Flag });
        let store_url = stores::resolve(named.as_ref(), &loaded.settings, folder.path()).work.url;
        let store = Metered::new(open_known(&place, &store_url).await?);
        let lock_store = lock_store(&place, &loaded).await?;
        if let Err(error) = StoreHistory::forget_troubles(&place) {
            tracing::warn!(%error, "could not write down how far the stores are");
        }
        let mut histories = vec![store_watch::check(&store, &place, &store_url).await.map_err(Denied::from)?];
        if let Some(LockStore { coord, url }) = &lock_store {
            histories.push(store_watch::check(&**coord.store(), &place, url).await.map_err(Denied::from)?);
        }
        let metrics = Metrics::new(store.metrics());
        let coord = Coord::new(Arc::new(store));
        let node = node_name();
        let presence = watch::Sender::new(show_presence(&coord, &node).await?);
        let (sender, project) = watch::channel(Arc::clone(&loaded));
        let under_way = UnderWay::default();
        let may_be_of_runs = {
            let under_way = under_way.clone();
            move |before| under_way.within(before)
        };
        known::save(&place, &loaded.definitions, known::Runs::UnderWay);
        let noting = place.clone();
        let watching = Watch::start(watched, loaded, Notice::Automatic, may_be_of_runs, move |change| {
            tracing::info!(?change.diff, "project changed");
            warn_of(&change.loaded);
            known::save(&noting, &change.loaded.definitions, known::Runs::UnderWay);
            sender.send_replace(change.loaded);
        })
        .map_err(UpError::disk("watch the project"))?;
        let program = options.program.clone();
        // Asked once: the first run need not wait for the answer.
        if let Ok(Ok(isolation)) = tokio::task::spawn_blocking(isolation::probe).await {
            tracing::info!(isolation = isolation.map_or("none", Means::word), "runs are isolated by");
        }
        let site =
            Arc::new(Site { coord, lock_store, store_url, folder, place, project, node, program, metrics });
        let wishes = Arc::new(Wishes::new(watching.nudge(), site.project.clone()));
        let gate =
            Gate::open(&site, Arc::clone(&wishes), presence.subscribe(), options.port.as_ref()).await?;
        let mut daemon = Self::begin(site, presence, gate, wishes, watching, under_way, occupied).await;
        let site = Arc::clone(&daemon.site);
        for ((coord, _), history) in site.stores().zip(histories) {
            let store = Arc::clone(coord.store());
            daemon.sources.spawn(store_watch::keep_watch(store, site.place.clone(), history));
        }
        Ok(daemon)
    }

    async fn begin(
        site: Arc<Site>,
        presence: watch::Sender<Session>,
        gate: Gate,
        wishes: Arc<Wishes>,
        watch: Watch,
        under_way: UnderWay,
        occupied: File,
    ) -> Self {
        let runs = Arc::new(Runs::new(under_way));
        runs.adopt_all(&site).await;
        let no_more_claims = CancellationToken::new();
        let (mut sources, mut claiming) = (JoinSet::new(), JoinSet::new());
        sources.spawn(keep_time(Arc::clone(&site)));
        sources.spawn(keep_house(Arc::clone(&site)));
        claiming.spawn(keep_claiming(Arc::clone(&site), Arc::clone(&runs), no_more_claims.clone()));
        let leaving = CancellationToken::new();
        let mut shown = JoinSet::new();
        shown.spawn(keep_presence(Arc::clone(&site), presence, leaving.clone()));
        let counting = count(&site);
        Self {
            site,
            runs,
            sources,
            claiming,
            no_more_claims,
            presence: shown,
            leaving,
            gate,
            wishes,
            _counting: counting,
            _watch: watch,
            _occupied: occupied,
        }
    }

    /// What the daemon works with.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Where others reach it over HTTP.
    pub fn url(&self) -> String {
        self.gate.url()
    }

    /// Returns once somebody asks over HTTP that it stop, at this pace or faster.
    pub fn asked_to_stop(&self, pace: Pace) -> impl Future<Output = ()> + use<> {
        self.wishes.to_stop(pace)
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
        self.runs.all_started().await;
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
        self.gate.close().await;
        self.leaving.cancel();
        while self.presence.join_next().await.is_some() {}
        store_watch::note_end(&self.site).await;
        known::save(&self.site.place, &self.site.loaded().definitions, known::Runs::Over);
        Ok(Stopped { cleared: cleared?, interrupted })
    }

    async fn clear_queues(&self) -> Result<usize, Denied> {
        if nodes::count(&self.site.coord).await? > 1 {
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

/// Opens a store. One that the project has used is not created a second time.
async fn open_known(place: &Place, url: &str) -> Result<Arc<dyn Store>, UpError> {
    let redacted = bell_locks::open::redacted(url);
    if !bell_locks::open::exists(url)? {
        known_stores::check_missing(place, &redacted).map_err(Denied::from)?;
    }
    let store = bell_locks::open::open_store(url).await?;
    known_stores::add(place, &redacted).map_err(UpError::disk("write into the folder .bell"))?;
    Ok(store)
}

/// The store that the project names for locks, if it is another one. Runs open it too, so processes must share it.
async fn lock_store(place: &Place, loaded: &Loaded) -> Result<Option<LockStore>, UpError> {
    let Some(url) = loaded.settings.locks.as_ref().map(|url| url.expose()) else { return Ok(None) };
    if url.split(':').next() == Some("memory") {
        return Err(UpError::Unsupported(
            "locks in another store must be in one that processes share, and memory: is each process's own",
        ));
    }
    let coord = Coord::new(open_known(place, url).await?);
    Ok(Some(LockStore { coord, url: url.to_owned() }))
}

/// A fleet in which no agent could ever start had better not begin to take jobs. Agents that are added later fail one by one.
fn check_users(loaded: &Loaded, project: &Path) -> Result<(), UpError> {
    for agent in loaded.agents.values().filter(|agent| agent.is_enabled() && agent.settings.user.is_none()) {
        run_user::user(agent, project)
            .map_err(|error| UpError::NoUser { agent: agent.name.clone(), reason: error.to_string() })?;
    }
    Ok(())
}

/// Says what can't be used of a project that was changed, and what is used instead.
fn warn_of(loaded: &Loaded) {
    for problem in loaded.problems.iter().filter(|problem| problem.is_error()) {
        tracing::warn!(%problem, "the project has a mistake in it: bell check tells more");
    }
    for agent in &loaded.kept {
        tracing::warn!(%agent, "its files can't be used; it goes on as it was");
    }
    if loaded.settings_kept {
        tracing::warn!("config.toml can't be used; the settings stay as they were");
    }
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
    let ask = Ask::new(nodes::key()?).shared().ttl(Ttl::MAX);
    coord.acquire(&session, &ask).await?;
    Ok(session)
}

/// Stays there until told to leave. A daemon that was stopped for longer than its session lasts comes back.
async fn keep_presence(site: Arc<Site>, session: watch::Sender<Session>, leaving: CancellationToken) {
    let mut outage = OutageLog::new("show that this node is there");
    loop {
        let current = session.borrow().clone();
        tokio::select! {
            () = leaving.cancelled() => break,
            () = current.over() => {}
        }
        match show_presence(&site.coord, &site.node).await {
            Ok(again) => {
                outage.worked();
                session.send_replace(again);
            }
            Err(error) => {
                outage.failed(&error);
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
    let last = session.borrow().clone();
    if let Err(error) = site.coord.end(&last).await {
        tracing::warn!(%error, "could not say that this node leaves; its session lapses");
    }
}

/// Takes in what the processes of this machine count. A daemon that can't goes on: its numbers are too low then.
fn count(site: &Site) -> JoinSet<()> {
    let mut counting = JoinSet::new();
    match tallies::listen(&site.place) {
        Ok(socket) => drop(counting.spawn(tallies::keep_counting(socket, site.metrics.clone()))),
        Err(error) => tracing::warn!(%error, "could not listen to what other processes count"),
    }
    counting
}

fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What an agent may call Bellwether by: its own name, and the short ones that projects of Action Llama use.
const COMMANDS: &[&str] = &[
    "bell",
    "rlock",
    "runlock",
    "rlock-heartbeat",
    "al-rerun",
    "al-status",
    "al-return",
    "al-exit",
    "al-subagent",
    "al-subagent-check",
    "al-subagent-wait",
];

/// Keeps other daemons of this machine out of the project; `None` if one is there and stays.
async fn occupy(place: &Place) -> io::Result<Option<File>> {
    let taken = async {
        loop {
            match place.occupy() {
                Ok(None) => tokio::time::sleep(OCCUPY_EVERY).await,
                done => return done,
            }
        }
    };
    tokio::time::timeout(KILLED_WITHIN, taken).await.unwrap_or(Ok(None))
}

/// Puts `bell` where agents find it. What is there already is replaced by rename, so that an agent that looks at this
/// moment finds one or the other.
fn link_commands(place: &Place, program: &Path) -> io::Result<()> {
    for name in COMMANDS {
        let (link, fresh) = (place.bin().join(name), place.bin().join(format!(".{name}")));
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(program, &fresh)?;
        std::fs::rename(&fresh, &link)?;
    }
    Ok(())
}
