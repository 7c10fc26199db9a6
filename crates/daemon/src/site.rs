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
    /// The way to the store of locks, where the project keeps them in another one.
    pub lock_store: Option<Coord>,
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

impl Site {
    /// The project as it is now.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.project.borrow())
    }

    /// An agent of the project.
    pub fn agent(&self, name: &AgentName) -> Option<Arc<Agent>> {
        self.loaded().agents.get(name).cloned()
    }
}
