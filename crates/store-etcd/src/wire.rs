//! Requests to whichever member answers, each with a time limit.
//!
//! All requests go to one member for as long as it answers. One that can't be reached, has no leader or is
//! late is left for the next. A request that changes something is sent a second time only if the first was
//! surely not carried out. Every answer is checked to come from the one cluster, and not from its past.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as EtcdError, KvClient, ResponseHeader, Txn, TxnResponse};
use tokio::time::{Instant, sleep, timeout};

use bell_store::{Error, Result};

use crate::address::Address;
use crate::fault::{Fault, Reached};
use crate::tls;

/// How long a request may take, with all its attempts.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(5);

/// How long a member may take to accept a connection, so that there is time for the next.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How often a silent connection is tried, and how long that may take. etcd refuses to be tried more often
/// than every 5 s.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// The pause after all members failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers may be as large as etcd makes them: a page of the largest records.
const MAX_ANSWER: usize = i32::MAX as usize;

/// What it would do to carry out a request twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Twice {
    /// Nothing worse than once: reads, and what is made anew each time.
    Harmless,
    /// It could find its own traces and take them for somebody else's.
    Harmful,
}

/// The way to the members of a cluster.
pub(crate) struct Wire {
    address: Address,
    options: ConnectOptions,
    members: Vec<Mutex<Option<Client>>>,
    /// The member that answered last.
    current: AtomicUsize,
    /// The cluster that answered first; zero before that.
    cluster: AtomicU64,
    /// The latest revision that an answer was of.
    revision: AtomicI64,
}

impl Wire {
    /// # Errors
    /// Those of reading the files that an encrypted connection needs.
    pub(crate) fn new(address: Address) -> Result<Self> {
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
            .with_connect_timeout(CONNECT_LIMIT);
        if let Some((user, password)) = &address.user {
            options = options.with_user(user, password.reveal()).with_auto_token_refresh(true);
        }
        let options = tls::apply(options, address.tls.as_ref())?;
        Ok(Self {
            members: address.endpoints.iter().map(|_| Mutex::default()).collect(),
            address,
            options,
            current: AtomicUsize::new(0),
            cluster: AtomicU64::new(0),
            revision: AtomicI64::new(0),
        })
    }

    /// A transaction.
    pub(crate) async fn txn(&self, twice: Twice, txn: Txn) -> Result<TxnResponse, Fault> {
        let floor = self.revision.load(Ordering::Acquire);
        let ask = |client: Client| {
            let (mut kv, txn) = (kv(&client), txn.clone());
            async move { kv.txn(txn).await }
        };
        let answer = self.call(twice, ask).await?;
        self.check(answer.header(), floor)?;
        Ok(answer)
    }

    /// Any request, at whichever member answers.
    pub(crate) async fn call<T, Asked>(&self, twice: Twice, ask: impl Fn(Client) -> Asked) -> Result<T, Fault>
    where
        Asked: Future<Output = Result<T, EtcdError>>,
    {
        let deadline = Instant::now() + TIME_LIMIT;
        let mut failures = 0;
        loop {
            let member = self.current.load(Ordering::Acquire);
            let left = deadline.saturating_duration_since(Instant::now());
            let fault = match timeout(self.share(twice, left), self.attempt(member, &ask)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(fault)) => fault,
                Err(_) => Fault::late(),
            };
            if !fault.is_transient() {
                return Err(fault);
            }
            self.leave(member);
            failures += 1;
            let may_repeat = twice == Twice::Harmless || fault.reached == Reached::Never;
            if !may_repeat || Instant::now() + PAUSE >= deadline {
                return Err(fault);
            }
            if failures % self.members.len() == 0 {
                sleep(PAUSE).await;
            }
        }
    }

    /// A connection to the member that answered last, for what outlives a request.
    pub(crate) async fn connection(&self) -> Result<Client, Fault> {
        self.call(Twice::Harmless, |client| async { Ok(client) }).await
    }

    /// Turns to another member: this one failed.
    pub(crate) fn leave_current(&self) {
        self.leave(self.current.load(Ordering::Acquire));
    }

    /// The error of a failed read.
    pub(crate) fn reading(&self, fault: Fault) -> Error {
        fault.reading(format!("read from etcd at {}", self.address.endpoints.join(", ")))
    }

    /// The error of a failed write.
    pub(crate) fn writing(&self, fault: Fault) -> Error {
        fault.writing(format!("write to etcd at {}", self.address.endpoints.join(", ")))
    }

    async fn attempt<T, Asked>(&self, member: usize, ask: &impl Fn(Client) -> Asked) -> Result<T, Fault>
    where
        Asked: Future<Output = Result<T, EtcdError>>,
    {
        let client = self.client(member).await.map_err(Fault::before_sending)?;
        Ok(ask(client).await?)
    }

    async fn client(&self, member: usize) -> Result<Client, Fault> {
        let known = lock(&self.members[member]).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let endpoint = &self.address.endpoints[member];
        let scheme = if self.address.tls.is_some() { "https" } else { "http" };
        let client = Client::connect([format!("{scheme}://{endpoint}")], Some(self.options.clone())).await?;
        *lock(&self.members[member]) = Some(client.clone());
        Ok(client)
    }

    /// Reads leave time for the other members; a write that may have happened is not sent to another anyway.
    fn share(&self, twice: Twice, left: Duration) -> Duration {
        let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        match twice {
            Twice::Harmless => left.min(TIME_LIMIT / members),
            Twice::Harmful => left,
        }
    }

    fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let _ = self.current.compare_exchange(member, next, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The cluster is the one that was opened, and a request sent after its revision `floor` was seen is
    /// answered as of that or later.
    fn check(&self, header: Option<&ResponseHeader>, floor: i64) -> Result<(), Fault> {
        let Some(header) = header else { return Ok(()) };
        let (cluster, revision) = (header.cluster_id(), header.revision());
        let first = self.cluster.compare_exchange(0, cluster, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err_and(|known| known != cluster) {
            return Err(Fault::another_cluster());
        }
        if revision < floor {
            return Err(Fault::rewound(floor, revision));
        }
        self.revision.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }
}

fn kv(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(MAX_ANSWER)
}

fn lock(slot: &Mutex<Option<Client>>) -> std::sync::MutexGuard<'_, Option<Client>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
