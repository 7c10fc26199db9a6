//! A store on etcd, shared by machines: transactions, linearizable reads only, changes by watch.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `address` | the URL, and what of it may be shown |
//! | `keys` | where things are under the store's prefix, and how names become keys |
//! | `line` | the store's clock: how clients count the time together, and why no lease ends early |
//! | `timekeeper` | follows, asks for, answers and goes on with that time |
//! | `revision` | revisions of the store, made of etcd's |
//! | `commit` | commits as one transaction of etcd |
//! | `together` | which commits may share one |
//! | `lane` | commits on their way, and those who wait for their turn |
//! | `reading` | reads and scans as of one revision |
//! | `answers` | records and the store's state, put together from etcd's keys |
//! | `push` | changes as etcd tells them |
//! | `set_up` | opening: version, format, prefix, warnings |
//! | `wire` | requests to whichever member answers, each with a time limit |
//! | `plain` | connections that send a request in one piece |
//! | `patient` | answers to the server's pings, held back for a moment |
//! | `pulse` | what keeps the time limits of requests cheap |
//! | `engine` | the thread that it runs on, but for requests of those on the executor that opened the store |
//! | `tls` | encrypted connections, with the feature `tls` |
//! | `fault` | what etcd's errors mean to the caller |
//!
//! Revisions come from etcd's own: the raft log orders commits, and they rise for ever, over restart and change
//! of leader. A store shares them with whatever else is in the cluster, so they rise by more than one.

mod address;
mod answers;
mod commit;
mod engine;
mod fault;
mod keys;
mod lane;
mod line;
mod patient;
mod plain;
mod pulse;
mod push;
mod reading;
mod revision;
mod set_up;
mod timekeeper;
mod tls;
mod together;
#[cfg(test)]
mod two_hosts;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bell_store::hub::Hub;
use bell_store::info::{Clock, Durability, Limits, Push, Scope};
use bell_store::topic::Topic;
use bell_store::{Error, Info, Kind, Name, Outcome, Result, Snapshot, Store, Timestamp, Txn, Watch};
use tokio::runtime::RuntimeFlavor::MultiThread;
use tokio::runtime::{Handle, Id};
use tokio::sync::{mpsc, oneshot};

use address::Address;
use engine::Engine;
use keys::Keys;
use lane::Lane;
use line::Host;
use push::{Listener, Topics, Wanted};
use timekeeper::Timekeeper;
use wire::Wire;

/// A store on etcd. Dropped, it closes its connections; a commit that was not answered may still happen.
pub struct Etcd {
    info: Info,
    hub: Arc<Hub>,
    lane: Arc<Lane>,
    home: Option<Home>,
    engine: Engine,
    ears: mpsc::UnboundedSender<Wanted>,
    /// What is listened to since somebody first watched it.
    topics: Mutex<BTreeSet<Topic>>,
}

/// A way to etcd for those on the executor that opened the store: who goes by the engine's thread changes
/// threads twice. All others go by the engine: renewals first of all, which come from an executor of their own and
/// must not wait for a busy one.
struct Home {
    id: Id,
    lane: Arc<Lane>,
}

impl Home {
    /// Tries the way from this executor. `None`: there is none, it can't have connections or timers, or it does
    /// nothing unless somebody blocks on it.
    async fn open(lane: &Lane) -> Option<Self> {
        let here = Handle::try_current().ok().filter(|here| here.runtime_flavor() == MultiThread)?;
        let lane = Arc::new(lane.beside());
        let trying = Arc::clone(&lane);
        // A task, since an executor that was made without input and output panics.
        here.spawn(async move { trying.read(&[]).await }).await.ok()?.ok()?;
        Some(Self { id: here.id(), lane })
    }
}

impl Etcd {
    /// Opens the store at `etcd://[user:password@]host[:port][,host…][/prefix]`; its first keys are made if
    /// nothing is under the prefix.
    ///
    /// Works on any executor, and on several at once.
    ///
    /// # Errors
    /// With a hint: the URL can't be read, nobody answers, user or password are wrong, etcd is too old, or
    /// the prefix is used by something else or by a newer Bellwether. None of them repeats credentials.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_on(url, Host::this()).await
    }

    async fn open_on(url: &str, host: Host) -> Result<Self> {
        let address = Address::parse(url)?;
        let (location, keys) = (address.to_string(), Keys::new(&address.prefix));
        let wire = Arc::new(Wire::new(address)?);
        let engine = Engine::start()?;
        let hub = Arc::new(Hub::default());
        let opening = open_client(Arc::clone(&wire), keys.clone(), host);
        let (timekeeper, next, members) = engine.run(opening).await.ok_or_else(ended)??;
        let (ears, wanted) = mpsc::unbounded_channel();
        let listening = Arc::clone(&timekeeper);
        let listener = Listener {
            wire: Arc::clone(&wire),
            keys: keys.clone(),
            timekeeper: listening,
            hub: Arc::clone(&hub),
            next,
            topics: Topics::default(),
            wanted,
        };
        engine.keep_running(listener.run());
        let lane = Arc::new(Lane::new(wire, keys, timekeeper));
        let home = Home::open(&lane).await;
        let info = info(location, members);
        Ok(Self { info, hub, lane, home, engine, ears, topics: Mutex::default() })
    }

    /// Sees to it that changes of what is watched are heard of.
    async fn listen(&self, watch: &Watch) -> Result<()> {
        for topic in watch.topics() {
            if self.topics().contains(&topic) {
                continue;
            }
            let (done, listening) = oneshot::channel();
            self.ears.send((topic.clone(), done)).map_err(|_| deaf())?;
            listening.await.map_err(|_| deaf())?;
            self.topics().insert(topic);
        }
        Ok(())
    }

    fn topics(&self) -> MutexGuard<'_, BTreeSet<Topic>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request: here, if the caller is at home, or on the engine's thread.
    async fn ask<T, Asked>(&self, ask: impl FnOnce(Arc<Lane>) -> Asked) -> Result<T>
    where
        T: Send + 'static,
        Asked: Future<Output = Result<T>> + Send + 'static,
    {
        let here = || Handle::try_current().ok().map(|here| here.id());
        match &self.home {
            Some(home) if here() == Some(home.id) => ask(Arc::clone(&home.lane)).await,
            _ => self.engine.run(ask(Arc::clone(&self.lane))).await.ok_or_else(ended)?,
        }
    }
}

async fn open_client(
    wire: Arc<Wire>,
    keys: Keys,
    host: Host,
) -> Result<(Arc<Timekeeper>, i64, Option<usize>)> {
    set_up::check_version(&wire).await?;
    let found = set_up::find_or_make(&wire, &keys, &host).await?;
    let members = set_up::members(&wire).await;
    let timekeeper = Timekeeper::new(Handle::current(), wire, keys, host, found.meta);
    Ok((Arc::new(timekeeper), found.revision + 1, members))
}

fn info(location: String, members: Option<usize>) -> Info {
    Info {
        scheme: "etcd",
        location,
        scope: Scope::Distributed,
        durability: Durability::Power,
        fail_over: set_up::fail_over(members),
        clock: Clock::Clients,
        push: Push::Push,
        notices_death: false,
        limits: Limits::CONTRACT,
        warnings: set_up::warnings(members),
    }
}

fn deaf() -> Error {
    Error::new(Kind::Unavailable, "wait for changes: etcd does not answer")
        .hint("Check that etcd runs and has a leader; then try again.")
}

fn ended() -> Error {
    Error::new(Kind::Unknown, "ask etcd: the store was closed").hint("Open it again.")
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("location", &self.info.location).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Etcd {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.read(&[]).await?.now)
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        let names = names.to_vec();
        self.ask(|lane| async move { lane.read(&names).await }).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let limit = limit.min(self.info.limits.page);
        let (prefix, from) = (prefix.to_owned(), from.to_owned());
        self.ask(|lane| async move { lane.scan(&prefix, &from, limit).await }).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        txn.check(&self.info.limits)?;
        self.ask(|lane| async move { lane.commit(txn).await }).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.listen(watch).await?;
        self.hub.changed(self, watch).await
    }
}
