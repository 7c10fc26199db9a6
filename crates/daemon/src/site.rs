//! What every part of the daemon works with.

use std::path::PathBuf;
use std::sync::Arc;

use bell_control::place::Place;
use bell_coord::Coord;
use bell_core::work::agent::AgentName;
pub use bell_gateway::metrics::Metrics;
use bell_project::agent::Agent;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use tokio::sync::watch;

/// A project on this machine, with its store open.
pub struct Site {
    /// The way to the store.
    pub coord: Coord,
    /// Where locks are, if the project keeps them in another store. What a change of the settings says counts for the next
    /// daemon, as for the store.
    pub lock_store: Option<LockStore>,
    /// Where the store is, for the processes beside runs.
    pub store_url: String,
    /// The project's folder.
    pub folder: Folder,
    /// Where the project keeps what is Bellwether's.
    pub place: Place,
    /// The project as it was last loaded.
    pub project: watch::Receiver<Arc<Loaded>>,
    /// What this machine is called.
    pub node: String,
    /// Bellwether itself, to be started beside each run.
    pub program: PathBuf,
    /// The numbers of this daemon.
    pub metrics: Metrics,
}

/// A store that has locks only.
pub struct LockStore {
    /// The way to it.
    pub coord: Coord,
    /// Where it is, for the processes beside runs.
    pub url: String,
}

impl Site {
    /// The ways to all stores, with where each is.
    pub(crate) fn stores(&self) -> impl Iterator<Item = (&Coord, &str)> {
        let locks = self.lock_store.iter().map(|store| (&store.coord, store.url.as_str()));
        std::iter::once((&self.coord, self.store_url.as_str())).chain(locks)
    }

    /// The way to the locks.
    pub fn locks(&self) -> &Coord {
        self.lock_store.as_ref().map_or(&self.coord, |store| &store.coord)
    }

    /// The project as it is now.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.project.borrow())
    }

    /// An agent of the project.
    pub fn agent(&self, name: &AgentName) -> Option<Arc<Agent>> {
        self.loaded().agents.get(name).cloned()
    }
}
