//! What operators' questions and acts work with.

use std::str::FromStr;
use std::sync::Arc;

use bell_api::outcome::Outcome;
use bell_coord::Coord;
use bell_core::audit::Act;
use bell_core::work::agent::AgentName;
use bell_project::agent::Agent;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_runner::isolation::Means;
use tokio::sync::watch;

use crate::place::Place;
use crate::refused::Refused;

/// The longest name of a run or a job.
const NAME_CHARS_MAX: usize = 128;

/// A project with its store open, for whoever asks or acts. Clones share everything.
#[derive(Clone)]
pub struct Control {
    /// The way to the store of the project's work.
    pub coord: Coord,
    /// The way to the store of its locks; the same one unless the project names another.
    pub locks: Coord,
    /// The project's folder.
    pub folder: Arc<Folder>,
    /// Where the project keeps what is Bellwether's.
    pub place: Place,
    /// The project as it was last loaded.
    pub project: watch::Receiver<Arc<Loaded>>,
    /// What the store is called, without its password; `None` if nobody is to know.
    pub store: Option<String>,
    /// Says how runs are isolated on this machine, if they can be; `None` if nobody is to know.
    pub isolation: Option<fn() -> bell_runner::Result<Option<Means>>>,
}

impl Control {
    /// On a project that was loaded once, for one command.
    pub fn once(coord: Coord, locks: Coord, folder: Arc<Folder>, loaded: Arc<Loaded>) -> Self {
        // The last value stays when the sender is gone.
        let (_, project) = watch::channel(loaded);
        Self::live(coord, locks, folder, project)
    }

    /// On a project that a daemon keeps up to date.
    pub fn live(
        coord: Coord,
        locks: Coord,
        folder: Arc<Folder>,
        project: watch::Receiver<Arc<Loaded>>,
    ) -> Self {
        let place = Place::of(folder.path());
        Self { coord, locks, folder, place, project, store: None, isolation: None }
    }

    /// The same, on a store that is called so in answers.
    #[must_use]
    pub fn on(self, store: impl Into<String>) -> Self {
        Self { store: Some(store.into()), ..self }
    }

    /// The same, on a machine that isolates runs so.
    #[must_use]
    pub fn isolating(self, isolation: fn() -> bell_runner::Result<Option<Means>>) -> Self {
        Self { isolation: Some(isolation), ..self }
    }

    /// Writes down what somebody has just done. Whatever becomes of that, it was done.
    pub async fn record(&self, act: Act) {
        let (what, on) = (act.act.clone(), act.on.clone());
        if let Err(error) = self.coord.audit(act).await {
            tracing::error!(%error, what, on, "could not record what an operator did");
        }
    }

    /// The project as it is now.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.project.borrow())
    }

    /// An agent of the project.
    pub fn agent_of(&self, name: &AgentName) -> Option<Arc<Agent>> {
        self.loaded().agents.get(name).cloned()
    }
}

/// The name of an agent, as given.
pub(crate) fn agent_name(given: &str) -> Result<AgentName, Refused> {
    AgentName::from_str(given).map_err(|error| {
        Refused::invalid(format!("the name {given:?} {error}"), "bell check lists the agents.")
    })
}

/// The name of a run or a job, as given. Nothing else is looked for: it becomes a part of a record's name.
pub(crate) fn record_name(given: &str) -> Result<&str, Refused> {
    let is_plain = given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !given.is_empty() && given.len() <= NAME_CHARS_MAX && is_plain {
        return Ok(given);
    }
    Err(Refused::new(
        Outcome::NotFound,
        format!("could not find {given:?}: no run and no job is called so"),
        "bell runs and bell jobs list show what there is.",
    ))
}
