//! Whom the commands of operators ask: the project's store itself, or a gateway that answers for it.
//!
//! A command reads its line, asks here, and shows the answer. Which of the two it was makes no difference to it: both give
//! the types of `bell_api::control`.
//!
//! | asked for | asked |
//! | --- | --- |
//! | `--url`, else `--store`, else `BELL_GATEWAY`, else `BELL_STORE` | whatever that names |
//! | none of them, and the project's daemon answers on its socket | the daemon |
//! | none of them, and it does not, or its key is not ours to read | the store that the project names |

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bell_api::control::acts::{
    DoneAnswer, KillRequest, PauseRequest, ResumeRequest, ScaleRequest, SimpleRequest, TriggerAnswer,
    TriggerRequest,
};
use bell_api::control::deliveries::{
    DeliveriesAnswer, DeliveriesQuery, DeliveryAnswer, DeliveryQuery, DeliveryShown, RedeliverRequest,
};
use bell_api::control::feed::EventsQuery;
use bell_api::control::history::{HistoryAnswer, HistoryQuery};
use bell_api::control::jobs::{
    JobAnswer, LetterToReplay, QueuesAnswer, ReplayAnswer, ReplayRequest, UndoneAnswer, UndoneQuery,
};
use bell_api::control::runs::{RunsAnswer, RunsQuery};
use bell_api::control::status::{StatusAnswer, StatusQuery};
use bell_api::control::why::WhyAnswer;
use bell_api::outcome::Outcome;
use bell_client::Client;
use bell_control::known;
use bell_control::place::Place;
use bell_control::{Control, Who};
use bell_coord::Coord;
use bell_locks::open::redacted;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::stores::{self, ChosenStore, Stores};

use crate::answer::Refusal;
use crate::cli::Globals;
use crate::events::Coming;
use crate::open::{self, Access};
use crate::project::{self, Start, named, open_folder, stores_of};
use crate::say::Say;

/// How long a daemon of this machine may take to say that it is there. One that is stopped never does.
const THERE_WITHIN: Duration = Duration::from_secs(2);
/// Bytes in the file of a key: a key has a hundred.
const KEY_BYTES_MAX: u64 = 4_096;

/// What the command line and the environment say about whom to ask.
pub(crate) struct Reach {
    /// A gateway.
    url: Option<String>,
    /// By the command line, and not by the environment.
    is_named: bool,
    key_file: Option<PathBuf>,
    /// A store.
    pub(crate) store: Option<ChosenStore>,
    /// Where to look for the project.
    pub(crate) start: Start,
    /// For what is said beside the answer.
    say: Say,
}

impl Reach {
    /// Reads both. What is said on the command line counts more than what the environment says.
    pub(crate) fn of(say: &Say, globals: &Globals) -> Self {
        let url = globals.gateway.clone();
        let url = if globals.store.is_some() { url } else { url.or_else(|| variable("BELL_GATEWAY")) };
        let store = if url.is_some() { None } else { named(globals) };
        let (is_named, key_file) = (globals.gateway.is_some(), globals.key_file.clone());
        Self { url, is_named, key_file, store, start: Start::of(globals), say: say.clone() }
    }

    /// Whether the command line names a gateway; the environment may.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The gateway that was named, if one was.
    pub(crate) fn gateway(&self) -> Result<Option<Client>, Refusal> {
        let Some(url) = &self.url else { return Ok(None) };
        let key = match &self.key_file {
            Some(path) => read_key(path)?,
            None => variable("BELL_API_KEY").ok_or_else(|| {
                Refusal::new(
                    Outcome::Unauthorized,
                    format!("could not ask {url}: no key is given"),
                    "Name the file of a key with --key-file, or set BELL_API_KEY; bell keys add makes one.",
                )
            })?,
        };
        let client = Client::new(url, &key.trim().to_owned().into()).map_err(|failure| {
            Refusal::invalid(
                failure.to_string(),
                "Write the address like http://127.0.0.1:8080 or unix:/srv/fleet/.bell/bell.sock, and the key as it was \
                 shown when it was made.",
            )
        })?;
        Ok(Some(client))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn read_key(path: &Path) -> Result<String, Refusal> {
    let unusable = |why: String| {
        Refusal::new(
            Outcome::Unauthorized,
            format!("could not use the key in {}: {why}", path.display()),
            "Name a file that has nothing but a key in it; .bell/api-key of a project is one.",
        )
    };
    let about = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
    if !about.is_file() || about.len() > KEY_BYTES_MAX {
        return Err(unusable("it is no file with a key".to_owned()));
    }
    std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))
}

/// What a command needs beside jobs and runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Work,
    /// Locks, wherever the project keeps them.
    Locks,
    /// Locks, also where there is no project.
    LocksAnywhere,
}

/// Whom a command asks.
pub(crate) struct Fleet {
    whom: Whom,
    /// Who asks, as the environment has it.
    user: String,
    /// The store behind it, where that is known.
    store: Option<String>,
}

enum Whom {
    Here(Box<Control>),
    There(Client),
}

/// Asks whomever it is.
macro_rules! ask {
    ($fleet:expr, |$control:ident| $here:expr, |$client:ident| $there:expr) => {
        match &$fleet.whom {
            Whom::Here($control) => Ok($here.await?),
            Whom::There($client) => Ok($there.await?),
        }
    };
}

impl Fleet {
    /// Opens what answers for the project: its daemon, or its store.
    pub(crate) async fn open(reach: &Reach, need: Need, access: Access) -> Result<Self, Refusal> {
        let user = variable("USER").unwrap_or_default();
        if let Some(client) = reach.gateway()? {
            return Ok(Self { whom: Whom::There(client), user, store: None });
        }
        let fleet = Source::find(reach, need)?;
        let daemon = match (&reach.store, &fleet.project) {
            (None, Some(project)) => daemon_of(&Place::of(project)).await,
            _ => None,
        };
        fleet.open(reach, need, access, daemon, user).await
    }

    /// A daemon and nobody else.
    pub(crate) async fn of_daemon(reach: &Reach) -> Result<Self, Refusal> {
        let client = match reach.gateway()? {
            Some(client) => client,
            None => daemon_of(&Place::of(&reach.start.project()?)).await.ok_or_else(no_daemon)?,
        };
        Ok(Self { whom: Whom::There(client), user: variable("USER").unwrap_or_default(), store: None })
    }

    /// The store of the project itself, whether or not its daemon answers.
    pub(crate) async fn open_store(reach: &Reach, need: Need, access: Access) -> Result<Self, Refusal> {
        let user = variable("USER").unwrap_or_default();
        Source::find(reach, need)?.open(reach, need, access, None, user).await
    }

    /// The store behind it, without its password, where that is known.
    pub(crate) fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Whether a daemon was asked because it happened to run here, and does not answer any longer.
    pub(crate) fn is_gone(&self, refusal: &Refusal) -> bool {
        let was_near = matches!(self.whom, Whom::There(_)) && self.store.is_some();
        was_near && matches!(refusal.0.outcome, Outcome::Unreachable | Outcome::Unavailable)
    }

    fn who(&self) -> Who {
        Who::local(self.user.clone())
    }

    /// Who acts, in the words of whoever is far away and shows a key.
    fn by(&self) -> Option<String> {
        match &self.whom {
            Whom::Here(_) => None,
            Whom::There(_) => Some(self.user.clone()).filter(|user| !user.is_empty()),
        }
    }

    pub(crate) async fn status(&self, query: &StatusQuery) -> Result<StatusAnswer, Refusal> {
        ask!(self, |control| control.status(query), |client| client.fleet_status(query))
    }

    pub(crate) async fn runs(&self, query: &RunsQuery) -> Result<RunsAnswer, Refusal> {
        ask!(self, |control| control.runs(query), |client| client.runs(query))
    }

    pub(crate) async fn jobs(&self) -> Result<QueuesAnswer, Refusal> {
        ask!(self, |control| control.jobs(), |client| client.jobs())
    }

    pub(crate) async fn job(&self, name: &str, wait: Duration) -> Result<JobAnswer, Refusal> {
        ask!(self, |control| control.job(name, wait), |client| client.job(name, wait))
    }

    pub(crate) async fn undone(&self, query: &UndoneQuery) -> Result<UndoneAnswer, Refusal> {
        ask!(self, |control| control.undone(query), |client| client.undone(query))
    }

    pub(crate) async fn history(&self, query: &HistoryQuery) -> Result<HistoryAnswer, Refusal> {
        ask!(self, |control| control.history(query), |client| client.history(query))
    }

    /// What happens, from where the question says.
    pub(crate) async fn events(&self, query: &EventsQuery) -> Result<Coming, Refusal> {
        match &self.whom {
            Whom::Here(control) => {
                let (feed, wanted) = control.feed(query).await?;
                Ok(Coming::Here(Box::new(feed), wanted))
            }
            Whom::There(client) => Ok(Coming::There(Box::new(client.events(query).await?))),
        }
    }

    /// Has the daemon read its project again.
    pub(crate) async fn reload(&self) -> Result<DoneAnswer, Refusal> {
        let request = SimpleRequest { by: self.by() };
        match &self.whom {
            Whom::There(client) => Ok(client.reload(&request).await?),
            Whom::Here(_) => Err(no_daemon()),
        }
    }

    pub(crate) async fn why(&self, of: &str) -> Result<WhyAnswer, Refusal> {
        ask!(self, |control| control.why(of), |client| client.why(of))
    }

    pub(crate) async fn deliveries(&self, query: &DeliveriesQuery) -> Result<DeliveriesAnswer, Refusal> {
        ask!(self, |control| control.deliveries(query), |client| client.deliveries(query))
    }

    pub(crate) async fn delivery(&self, id: &str, source: Option<String>) -> Result<DeliveryShown, Refusal> {
        let query = DeliveryQuery { source };
        ask!(self, |control| control.delivery(id, query.source.as_deref()), |client| client
            .delivery(id, &query))
    }

    pub(crate) async fn redeliver(
        &self,
        id: &str,
        source: Option<String>,
    ) -> Result<DeliveryAnswer, Refusal> {
        let request = RedeliverRequest { source, by: self.by() };
        ask!(self, |control| control.redeliver(id, &request, &self.who()), |client| client
            .redeliver(id, &request))
    }

    pub(crate) async fn pause(&self, agent: Option<String>, reason: String) -> Result<DoneAnswer, Refusal> {
        let request = PauseRequest { agent, reason: Some(reason), by: self.by() };
        ask!(self, |control| control.pause(&request, &self.who()), |client| client.pause(&request))
    }

    pub(crate) async fn resume(&self, agent: Option<String>) -> Result<DoneAnswer, Refusal> {
        let request = ResumeRequest { agent, by: self.by() };
        ask!(self, |control| control.resume(&request, &self.who()), |client| client.resume(&request))
    }

    pub(crate) async fn kill(&self, run: &str, reason: String) -> Result<DoneAnswer, Refusal> {
        let request = KillRequest { reason: Some(reason), by: self.by() };
        ask!(self, |control| control.kill(run, &request, &self.who()), |client| client.kill(run, &request))
    }

    pub(crate) async fn trigger(
        &self,
        agent: &str,
        prompt: Option<String>,
    ) -> Result<TriggerAnswer, Refusal> {
        let request = TriggerRequest { prompt, by: self.by(), ..TriggerRequest::default() };
        ask!(self, |control| control.trigger(agent, &request, &self.who()), |client| client
            .trigger(agent, &request))
    }

    pub(crate) async fn scale(
        &self,
        agent: &str,
        scale: Option<u32>,
        reason: String,
    ) -> Result<DoneAnswer, Refusal> {
        let request = ScaleRequest { scale, reason: Some(reason), by: self.by() };
        ask!(self, |control| control.scale(agent, &request, &self.who()), |client| client
            .scale(agent, &request))
    }

    pub(crate) async fn clear(&self, agent: &str) -> Result<DoneAnswer, Refusal> {
        let request = SimpleRequest { by: self.by() };
        ask!(self, |control| control.clear(agent, &self.who()), |client| client.clear(agent, &request))
    }

    pub(crate) async fn cancel(&self, job: &str) -> Result<DoneAnswer, Refusal> {
        let request = SimpleRequest { by: self.by() };
        ask!(self, |control| control.cancel(job, &self.who()), |client| client.cancel(job, &request))
    }

    pub(crate) async fn replay(&self, job: &str) -> Result<DoneAnswer, Refusal> {
        let request = SimpleRequest { by: self.by() };
        ask!(self, |control| control.replay(job, &self.who()), |client| client.replay(job, &request))
    }

    pub(crate) async fn replay_all(&self, letters: Vec<LetterToReplay>) -> Result<ReplayAnswer, Refusal> {
        let request = ReplayRequest { letters, by: self.by() };
        ask!(self, |control| control.replay_all(&request, &self.who()), |client| client.replay_all(&request))
    }
}

/// What there is to be asked about: a project, or a store that was named, outside of any.
struct Source {
    project: Option<PathBuf>,
    folder: Folder,
    loaded: Loaded,
    stores: Stores,
}

impl Source {
    fn find(reach: &Reach, need: Need) -> Result<Self, Refusal> {
        let is_enough = reach.store.is_some() || need == Need::LocksAnywhere;
        let project = if is_enough { reach.start.find()? } else { Some(reach.start.project()?) };
        let Some(project) = project else { return Self::outside(reach) };
        let folder = open_folder(&project)?;
        let loaded = known::load(&folder);
        let stores = stores::resolve(reach.store.as_ref(), &loaded.settings, &project);
        Ok(Self { project: Some(project), folder, loaded, stores })
    }

    /// The agents that are here are known by name, if they may be trusted; settings count in a project only.
    fn outside(reach: &Reach) -> Result<Self, Refusal> {
        let stores = reach.start.stores(reach.store.as_ref())?.stores;
        let here = std::fs::canonicalize(reach.start.folder()).unwrap_or_else(|_| PathBuf::from("/"));
        let folder = open_folder(&here)?;
        let mut loaded = if project::check(&here).is_ok() { known::load(&folder) } else { Loaded::empty() };
        (loaded.settings.store, loaded.settings.locks) = (None, None);
        Ok(Self { project: None, folder, loaded, stores })
    }

    async fn open(
        self,
        reach: &Reach,
        need: Need,
        access: Access,
        daemon: Option<Client>,
        user: String,
    ) -> Result<Fleet, Refusal> {
        let Stores { work, locks } = &self.stores;
        let store = Some(redacted(&work.url));
        if let Some(client) = daemon {
            return Ok(Fleet { whom: Whom::There(client), user, store });
        }
        self.refuse_guess(reach.store.as_ref())?;
        let project = self.project.as_deref();
        let coord = Coord::new(open::open(&reach.say, work, project, access).await?);
        let locks = match locks {
            elsewhere if need != Need::Work && elsewhere != work => {
                Coord::new(open::open(&reach.say, elsewhere, project, Access::Read).await?)
            }
            _ => coord.clone(),
        };
        let control = Control::once(coord, locks, Arc::new(self.folder), Arc::new(self.loaded))
            .on(redacted(&work.url))
            .isolating(bell_runner::isolation::probe);
        Ok(Fleet { whom: Whom::Here(Box::new(control)), user, store })
    }

    /// Refuses to guess which stores they are.
    fn refuse_guess(&self, named: Option<&ChosenStore>) -> Result<(), Refusal> {
        let project = self.project.as_deref();
        project.map_or(Ok(()), |project| stores_of(project, &self.loaded, named).map(drop))
    }
}

/// Opens the store of the project's work, for what only the store itself can be asked.
pub(crate) async fn open_work(reach: &Reach, access: Access) -> Result<Coord, Refusal> {
    let source = Source::find(reach, Need::Work)?;
    source.refuse_guess(reach.store.as_ref())?;
    Ok(Coord::new(open::open(&reach.say, &source.stores.work, source.project.as_deref(), access).await?))
}

/// Opens the store of the project's locks, if it is another one than that of its work.
pub(crate) async fn open_other_locks(reach: &Reach, access: Access) -> Result<Option<Coord>, Refusal> {
    let Source { project, stores: Stores { work, locks }, .. } = Source::find(reach, Need::Work)?;
    if locks == work {
        return Ok(None);
    }
    Ok(Some(Coord::new(open::open(&reach.say, &locks, project.as_deref(), access).await?)))
}

fn no_daemon() -> Refusal {
    Refusal::new(
        Outcome::NotFound,
        "could not find a daemon of this machine that runs the project and that this user may control",
        "Start one with bell up, or name the gateway of another with --url.",
    )
}

/// The daemon of this project, if it answers on its socket to the key that lies beside it.
async fn daemon_of(place: &Place) -> Option<Client> {
    let socket = std::path::absolute(place.socket()).ok().filter(|socket| socket.exists())?;
    let key = read_key(&place.api_key()).ok()?;
    let client = Client::new(&format!("unix:{}", socket.display()), &key.trim().to_owned().into()).ok()?;
    client.admits_me(THERE_WITHIN).await.then_some(client)
}
