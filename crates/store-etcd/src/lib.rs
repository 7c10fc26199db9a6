//! A store on etcd, shared by machines: transactions, linearizable reads only, changes by watch.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `address` | the URL, and what of it may be shown |
//! | `keys` | where things are under the store's prefix, and how names become keys |
//! | `line` | the store's clock: how clients count the time together, and why no lease ends early |
//! | `timekeeper` | follows, asks for, answers and goes on with that time |
//! | `commit` | a commit as one transaction of etcd |
//! | `reading` | reads and scans as of one revision |
//! | `answers` | records and the store's state, put together from etcd's keys |
//! | `push` | changes as etcd tells them |
//! | `set_up` | opening: version, format, prefix, warnings |
//! | `wire` | requests to whichever member answers, each with a time limit |
//! | `engine` | the thread that all of it runs on |
//! | `tls` | encrypted connections, with the feature `tls` |
//! | `fault` | what etcd's errors mean to the caller |
//!
//! Revisions are etcd's own: the raft log orders commits, and they rise for ever, over restart and change
//! of leader. A store shares them with whatever else is in the cluster, so they rise by more than one.

mod address;
mod answers;
mod commit;
mod engine;
mod fault;
mod keys;
mod line;
mod push;
mod reading;
mod set_up;
mod timekeeper;
mod tls;
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

use address::Address;
use commit::Ended;
use engine::Engine;
use keys::Keys;
use line::Host;
use push::{Listener, Topics, Wanted};
use reading::Page;
use timekeeper::Timekeeper;
use tokio::sync::{mpsc, oneshot};
use wire::{Twice, Wire};

/// A store on etcd. Dropped, it closes its connections; a commit that was not answered may still happen.
pub struct Etcd {
    info: Info,
    hub: Arc<Hub>,
    client: Arc<Client>,
    engine: Engine,
    ears: mpsc::UnboundedSender<Wanted>,
    /// What is listened to since somebody first watched it.
    topics: Mutex<BTreeSet<Topic>>,
}

/// What the engine's thread works with.
struct Client {
    wire: Arc<Wire>,
    keys: Keys,
    timekeeper: Arc<Timekeeper>,
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
        let client = Arc::new(Client { wire, keys, timekeeper });
        Ok(Self { info: info(location, members), hub, client, engine, ears, topics: Mutex::default() })
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

    /// Runs a request on the engine's thread. It goes on if the caller is dropped.
    async fn ask<T, Asked>(&self, ask: impl FnOnce(Arc<Client>) -> Asked) -> Result<T>
    where
        T: Send + 'static,
        Asked: Future<Output = Result<T>> + Send + 'static,
    {
        self.engine.run(ask(Arc::clone(&self.client))).await.ok_or_else(ended)?
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
    let timekeeper = Timekeeper::new(wire, keys, host, found.meta);
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

impl Client {
    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        let page = reading::read(&self.wire, &self.keys, names).await?;
        self.snapshot(page, usize::MAX).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        let range = self.keys.scan(prefix, from);
        let page = reading::scan(&self.wire, &self.keys, range, limit).await?;
        self.snapshot(page, limit).await
    }

    async fn snapshot(&self, page: Page, limit: usize) -> Result<Snapshot> {
        self.timekeeper.adopt(&page.meta);
        let now = self.timekeeper.read().await?.now;
        let more = page.gathered.len() > limit;
        Ok(Snapshot { revision: page.meta.revision(), now, records: page.gathered.records(limit), more })
    }

    async fn commit(&self, txn: &Txn) -> Result<Outcome> {
        let reading = self.timekeeper.read().await?;
        if !reading.allows(txn.at) {
            let names: Vec<Name> = txn.expect.iter().map(|(name, _)| name.clone()).collect();
            return Ok(Outcome::Conflict(self.read(&names).await?));
        }
        let plan = commit::plan(&self.keys, txn, reading.reached());
        let answer = if txn.writes.is_empty() {
            self.wire.txn(Twice::Harmless, plan).await.map_err(|fault| self.wire.reading(fault))?
        } else {
            self.wire.txn(Twice::Harmful, plan).await.map_err(|fault| self.wire.writing(fault))?
        };
        let (ended, meta) = commit::outcome(&self.keys, txn, &answer)?;
        match &meta {
            Some(meta) => self.timekeeper.adopt(meta),
            None => {
                if let Some((head, revision)) = commit::replaced_head(&answer) {
                    self.timekeeper.adopt_head(head, revision);
                }
            }
        }
        let now = match (&ended, self.timekeeper.read().await) {
            (_, Ok(reading)) => reading,
            // It has happened: the time it was sent at is good enough.
            (Ended::Committed(_), Err(_)) => reading,
            (Ended::Conflict(..), Err(error)) => return Err(error),
        };
        Ok(ended.at(now))
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
        self.ask(|client| async move { client.read(&names).await }).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let limit = limit.min(self.info.limits.page);
        let (prefix, from) = (prefix.to_owned(), from.to_owned());
        self.ask(|client| async move { client.scan(&prefix, &from, limit).await }).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        txn.check(&self.info.limits)?;
        self.ask(|client| async move { client.commit(&txn).await }).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.listen(watch).await?;
        self.hub.changed(self, watch).await
    }
}
