//! A store on a Redis server, on one node of a cluster, or on the primary that sentinels name.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `address` | what a URL says |
//! | `find` | which node to talk to, and a connection to it |
//! | `request`, `line`, `resp` | a connection on which requests leave from the thread that asks |
//! | `server` | what the server says about itself, and what that means for the operator |
//! | `scripts` | the scripts that Redis runs, in `lua/` |
//! | `session` | a connection and what can be asked over it: one round trip each |
//! | `batch` | transactions that waited together |
//! | `reply` | what the scripts answer |
//! | `witness` | the store's clock, and what is done about jumps of the server's |
//! | `listened` | which topics have to be told |
//! | `notice` | what the server pushes |
//! | `link` | the thread that owns the connection and comes back when it was lost |
//! | `express` | a shorter way, for those on the runtime that opened the store |
//! | `fault` | what the server's refusals mean to the caller |
//!
//! # Keys
//! All share one hash tag, so that a cluster keeps them on one node and a script may touch them all.
//!
//! | key | what it is |
//! | --- | --- |
//! | `{prefix}:meta` | a hash: format, epoch, listened topics, and what the server was like when it was last looked at |
//! | `{prefix}:names` | a sorted set of all names, all with the score 0: their order is that of their bytes |
//! | `{prefix}:records` | a hash from name to version, stamp (8 bytes each) and value; under the empty name the head: revision, clock, format, a hash of the listened topics, and which process of the server has the data |
//! | `{prefix}:deleted` | a list: names of deleted records that are still among the names, with an empty record, since most come again |
//! | `{prefix}:changes:{topic}` | a channel: the names of this topic that a commit wrote, if somebody listens |
//! | `{prefix}:changes` | a channel: anything may have changed |
//!
//! # Fences never repeat
//! A Redis server may lose what it acknowledged: with its usual persistence by a restart, with replicas by a
//! fail-over. A revision lost in this way must not be given out twice.
//!
//! - An epoch is the millisecond in which it began, and its revisions start at 1024 times that. A store that is
//!   made anew after everything was lost, or an epoch that is raised, is above all that went before, unless it
//!   made more than a million commits in every second, or the server's clock was set back by as long as the
//!   store was old.
//! - The store records which process of the server has the data (its run and replication ids). Another one is
//!   believed only if it and its predecessor sync every commit (`appendonly yes`, `appendfsync always`) and have
//!   no replicas. Otherwise, and if the revision is lower than one this process has seen, every commit is
//!   refused with [`bell_store::Kind::Rewound`] until an operator raises the epoch ([`RedisStore::raise_epoch`]).

mod address;
mod batch;
mod express;
mod fault;
mod find;
mod line;
mod link;
mod listened;
mod notice;
mod reply;
mod request;
mod resp;
mod scripts;
mod server;
mod session;
mod witness;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bell_store::info::{Clock, Concern, Limits, Push, Scope, Warning};
use bell_store::{Info, Name, Outcome, Result, Revision, Snapshot, Store, Timestamp, Txn, Watch};

use address::Address;
use link::{Found, Job, Link};
use session::Shared;

/// A store on Redis. It can be used from any runtime; dropped, it closes its connection.
pub struct RedisStore {
    info: Info,
    shared: Arc<Shared>,
    link: Link,
}

impl RedisStore {
    /// Opens the store at `redis://[user:password@]host[:port][/database][?prefix=bell]`, made if it is missing;
    /// also `redis+sentinel://host,host/service[/database]`, `redis+cluster://host,host`, and with `rediss` for
    /// `redis` over TLS where the feature `tls` is on.
    ///
    /// A store that may have gone back is opened too, with a warning: it can be read, and its epoch raised.
    ///
    /// # Errors
    /// With a hint: the URL is wrong, the server can't be reached, refuses us, is a replica, too old or throws
    /// keys away, or the keys are another program's.
    pub async fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let shared = Arc::new(Shared::default());
        let (link, found) = Link::open(address.clone(), Arc::clone(&shared)).await?;
        Ok(Self { info: info(&address, &found), shared, link })
    }

    /// Begins a new epoch, for an operator who has seen to it that nobody relies on what may be lost. Answers
    /// its first revision, which is above all that were given out.
    ///
    /// # Errors
    /// As for a commit.
    pub async fn raise_epoch(&self) -> Result<Revision> {
        self.link.ask(Job::Raise).await
    }
}

fn info(address: &Address, found: &Found) -> Info {
    let mut warnings = found.server.warnings(&address.place);
    if let Some(rewound) = found.rewound {
        let fault = rewound.fault();
        let words = format!("{}; commits are refused. {}", fault.why, fault.hint);
        warnings.insert(0, Warning::new(Concern::Commits, words));
    }
    Info {
        scheme: address.scheme(),
        location: address.location(),
        scope: Scope::Distributed,
        durability: found.server.durability(),
        fail_over: found.server.fail_over(&address.place),
        clock: Clock::Server,
        push: Push::Push,
        notices_death: false,
        limits: Limits::CONTRACT,
        warnings,
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("location", &self.info.location).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.read(&[]).await?.now)
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        self.link.read(names).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let (prefix, from) = (prefix.to_owned(), from.to_owned());
        let limit = limit.min(self.info.limits.page);
        self.link.ask(|answer| Job::Scan { prefix, from, limit, answer }).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        txn.check(&self.info.limits)?;
        self.link.commit(txn).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        for topic in watch.topics() {
            if !self.shared.wants(&topic) {
                self.link.ask(|answer| Job::Listen(topic, answer)).await?;
            }
        }
        self.shared.hub.changed(self, watch).await
    }
}
