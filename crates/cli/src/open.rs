//! Opening the store that a command talks to. Which one it is, `project` says.

use std::env;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bell_api::outcome::Outcome;
use bell_control::known_stores;
use bell_control::place::{IGNORE_FILE, Place};
use bell_control::store_history::{StoreHistory, revision};
use bell_coord::{Coord, Denied};
use bell_locks::LockBackend;
use bell_locks::locks::StoreLocks;
use bell_locks::open::redacted;
use bell_project::locate::STATE_FOLDER;
use bell_project::stores::{ChosenStore, Origin, path_of};
use bell_store::Store;
use bell_store::memory::Memory;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::answer::Refusal;
use crate::project::user;
use crate::say::Say;

/// A daemon that starts for the first time takes far less than this from its first word to its store.
const CREATED_TRIES: u32 = 40;
const CREATED_EVERY: Duration = Duration::from_millis(50);

/// What a command does with a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// It looks. A store that is missing is not created: a default one is empty, and one that was named is an error.
    Read,
    /// It looks, and waits for changes. A store that is missing is an error: nothing would ever change in an empty one.
    Follow,
    /// It may write. A store that is missing is created; if nothing names it, that is said.
    Write,
}

/// A command at work: where its store is, and where its answers go.
pub(crate) struct Scene {
    pub(crate) say: Say,
    store: ChosenStore,
    /// The project that chose it.
    project: Option<PathBuf>,
}

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) coord: Coord,
    pub(crate) backend: Arc<dyn LockBackend>,
    /// The store by its real path, so that two ways to it are one name.
    pub(crate) name: String,
}

impl Scene {
    /// A command on this store.
    pub(crate) fn new(say: &Say, store: ChosenStore, project: Option<PathBuf>) -> Self {
        Self { say: say.clone().about(&redacted(&store.url)), store, project }
    }

    /// The URL of the store, with its password.
    pub(crate) fn url(&self) -> &str {
        &self.store.url
    }

    /// The store, and where it was set.
    pub(crate) fn chosen(&self) -> &ChosenStore {
        &self.store
    }

    /// The project that chose it.
    pub(crate) fn project(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// Whether there is a store.
    pub(crate) async fn exists(&self) -> Result<bool, Refusal> {
        exists(&self.store, self.project()).await
    }

    /// Whether this project has used the store, and it is not there any more.
    pub(crate) fn is_gone(&self, project: &Path) -> Result<bool, Refusal> {
        let is_known = known_stores::check_missing(&Place::of(project), &redacted(self.url())).is_err();
        Ok(is_known && !bell_locks::open::exists(self.url())?)
    }

    /// Makes what a new store needs around it.
    pub(crate) async fn prepare(&self) -> Result<(), Refusal> {
        match self.project() {
            Some(project) if !self.exists().await? => prepare(&self.store, project),
            _ => Ok(()),
        }
    }

    /// Opens a store that is there, for what would make no sense on a new one.
    pub(crate) async fn open_existing(&self) -> Result<Opened, Refusal> {
        self.open_any(Access::Follow).await
    }

    /// Opens a store that other processes can share.
    pub(crate) async fn open(&self, access: Access) -> Result<Opened, Refusal> {
        if self.store.url.split(':').next() == Some("memory") {
            return Err(Refusal::invalid(
                "could not use memory: for a command: nobody else would see the lock",
                "Name a store that processes share: sqlite:PATH or file:FOLDER.",
            ));
        }
        self.open_any(access).await
    }

    /// Opens any store, for looking at it.
    pub(crate) async fn open_any(&self, access: Access) -> Result<Opened, Refusal> {
        if !self.store.url.contains(':') {
            return Err(Denied::Invalid(format!(
                "{:?} is not a store URL: use memory:, sqlite:PATH, file:PATH",
                self.store.url
            ))
            .into());
        }
        let store = open(&self.say, &self.store, self.project.as_deref(), access).await?;
        let info = store.info();
        let path = std::fs::canonicalize(&info.location).unwrap_or_else(|_| PathBuf::from(&info.location));
        let name = format!("{}:{}", info.scheme, path.display());
        let locks = StoreLocks::new(store);
        Ok(Opened { coord: locks.coord().clone(), backend: Arc::new(locks), name })
    }
}

/// Opens a store of a project, or of none.
pub(crate) async fn open(
    say: &Say,
    store: &ChosenStore,
    project: Option<&Path>,
    access: Access,
) -> Result<Arc<dyn Store>, Refusal> {
    if exists(store, project).await? {
        let opened = bell_locks::open::open_store(&store.url).await?;
        if access == Access::Write {
            check_history(store, project, &*opened).await?;
            note(store, project);
        }
        return Ok(opened);
    }
    match access {
        Access::Read if store.origin.is_default() => Ok(Arc::new(Memory::new())),
        Access::Read | Access::Follow => Err(missing(store)),
        Access::Write => create(say, store, project).await,
    }
}

/// Whether the store exists. A missing store that should exist is an error: a new one in its place would grant held locks again.
async fn exists(store: &ChosenStore, project: Option<&Path>) -> Result<bool, Refusal> {
    let is_there = || bell_locks::open::exists(&store.url).map_err(Refusal::from);
    let Some(project) = project.filter(|_| store.origin != Origin::Flag) else { return is_there() };
    let place = Place::of(project);
    // Another store than the daemon's may be named by the environment.
    let is_the_projects = store.origin != Origin::Environment;
    for _ in 0..CREATED_TRIES {
        if is_there()? {
            return Ok(true);
        }
        if is_the_projects {
            refuse_masked(store, project)?;
        }
        if !is_the_projects || place.occupant().is_none() {
            known_stores::check_missing(&place, &redacted(&store.url)).map_err(Denied::from)?;
            return Ok(false);
        }
        tokio::time::sleep(CREATED_EVERY).await;
    }
    Err(removed(store, project))
}

async fn create(say: &Say, store: &ChosenStore, project: Option<&Path>) -> Result<Arc<dyn Store>, Refusal> {
    if let Some(project) = project {
        prepare(store, project)?;
    }
    let opened = bell_locks::open::open_store(&store.url).await?;
    note(store, project);
    if !store.origin.is_default() {
        // It was named: nothing has to be said about where it is.
        return Ok(opened);
    }
    let of = project.map(|project| format!(", for the project in {}", project.display())).unwrap_or_default();
    say.talk(&format!("bell: created the store {} ({}){of}", redacted(&store.url), store.origin.text()));
    Ok(opened)
}

/// Refuses a store of files that is an older copy than its project's daemon has seen: it would give fences a second time. Servers
/// notice that by themselves.
async fn check_history(
    store: &ChosenStore,
    project: Option<&Path>,
    opened: &dyn Store,
) -> Result<(), Refusal> {
    let Some(project) = project.filter(|_| path_of(&store.url).is_some()) else { return Ok(()) };
    let history = StoreHistory::load(&Place::of(project), &redacted(&store.url));
    if history.revision == 0 {
        return Ok(());
    }
    let revision = revision(opened).await.map_err(Denied::from)?;
    Ok(history.check(revision).map_err(Denied::from)?)
}

/// Lists the store as used by the project, so that it is not created again when it is missing. A user who can't write there
/// uses it all the same.
fn note(store: &ChosenStore, project: Option<&Path>) {
    if let Some(project) = project {
        let _ = known_stores::add(&Place::of(project), &redacted(&store.url));
    }
}

/// Called by sudo, root would create a store that the user who called it can't open.
fn refuse_for_another(store: &ChosenStore, project: &Path) -> Result<(), Refusal> {
    let owner = std::fs::metadata(project).map_or(0, |found| found.st_uid());
    if store.origin != Origin::Project || user().sudo_uid != Some(owner) || owner == 0 || user().uid != 0 {
        return Ok(());
    }
    Err(Refusal::invalid(
        format!(
            "could not create the store of the project in {}: it would be root's, and the project is of uid {owner}",
            project.display()
        ),
        "Run it without sudo.",
    ))
}

/// Makes the state folder of the project, where the store is in it.
fn prepare(store: &ChosenStore, project: &Path) -> Result<(), Refusal> {
    refuse_for_another(store, project)?;
    if !is_below(store, &project.join(STATE_FOLDER)) {
        return Ok(());
    }
    Place::of(project).make_root().map_err(|error| {
        Refusal::unavailable(
            format!("could not create {}: {error}", project.join(STATE_FOLDER).display()),
            "Run it as the user who owns the project, or name a store with --store or BELL_STORE.",
        )
    })
}

/// A mount over the state folder hides the store.
fn refuse_masked(store: &ChosenStore, project: &Path) -> Result<(), Refusal> {
    let state = project.join(STATE_FOLDER);
    if !is_below(store, &state) || !is_mount(&state) || state.join(IGNORE_FILE).exists() {
        return Ok(());
    }
    Err(Refusal::new(
        Outcome::Unauthorized,
        format!(
            "could not use the store of the project: {} is masked here by a mount of its own",
            state.display()
        ),
        "Inside a run leave BELL_URL and BELL_TOKEN as they are; elsewhere name the store with --store, or ask the daemon with \
         --url. If the mount is for a new project, start bell up first.",
    ))
}

fn is_below(store: &ChosenStore, folder: &Path) -> bool {
    path_of(&store.url).is_some_and(|path| path.starts_with(folder))
}

fn is_mount(folder: &Path) -> bool {
    statx(CWD, folder, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// A daemon that runs has its store elsewhere, or it was removed under it.
fn removed(store: &ChosenStore, project: &Path) -> Refusal {
    Refusal::unavailable(
        format!(
            "could not use {}: it is not there, and a daemon runs the project in {}",
            redacted(&store.url),
            project.display()
        ),
        "If the daemon was started with --store or BELL_STORE, name the same store. If the store was moved, or its disk \
         unmounted: run bell stop, bring it back, a SQLite file with its -wal file, then run bell up.",
    )
}

fn missing(store: &ChosenStore) -> Refusal {
    Refusal::new(
        Outcome::NotFound,
        format!("could not find a store at {} ({})", redacted(&store.url), store.origin.text()),
        "Check the path, and that its disk is mounted. If the store is new, bell up or the first lock creates it.",
    )
}

/// Where this user's programs keep what must outlive them.
pub(crate) fn state_folder() -> Result<PathBuf, Refusal> {
    // A relative path would mean another folder for each caller; such a setting is to be ignored.
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|folder| folder.join("bell")).ok_or_else(|| {
        Refusal::invalid(
            "could not find a folder for this user: neither XDG_STATE_HOME nor HOME is an absolute path",
            "Set HOME, or name a store with --store or BELL_STORE.",
        )
    })
}
