//! Requests to whichever member answers, each with a time limit.
//!
//! All requests go to one member for as long as it answers. One that can't be reached, has no leader or is
//! late is left for the next. A request that changes something is sent a second time only if the first was
//! surely not carried out. Every answer is checked to come from the one cluster, and not from its past.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as EtcdError, KvClient, ResponseHeader, Txn, TxnResponse};
use tokio::time::{Instant, sleep, timeout};

use bell_store::{Error, Result};

use crate::address::Address;
use crate::fault::{Fault, Reached};
use crate::plain::{self, Lost};
use crate::pulse::Pulse;
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

/// The way to the members of a cluster. Its connections live on the executor that first asked over them.
pub(crate) struct Wire {
    address: Arc<Address>,
    options: ConnectOptions,
    members: Vec<Mutex<Option<Arc<Connection>>>>,
    /// The member that answered last.
    current: AtomicUsize,
    seen: Arc<Seen>,
    pulse: Pulse,
    is_for: For,
}

/// What is known of the cluster.
#[derive(Default)]
struct Seen {
    /// The cluster that answered first; zero before that.
    cluster: AtomicU64,
    /// The latest revision that an answer was of.
    revision: AtomicI64,
}

/// A connection to a member.
struct Connection {
    client: Client,
    /// For transactions; a client is costly to clone.
    kv: KvClient,
    /// `None`: it connects again by itself.
    lost: Option<Lost>,
}

/// What a wire is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    /// Also for streams.
    Everything,
    Requests,
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
            members: unconnected(&address),
            address: Arc::new(address),
            options,
            current: AtomicUsize::new(0),
            seen: Arc::default(),
            pulse: Pulse::default(),
            is_for: For::Everything,
        })
    }

    /// Another way to the same cluster, for requests only, with connections of its own.
    pub(crate) fn beside(&self) -> Self {
        Self {
            members: unconnected(&self.address),
            address: Arc::clone(&self.address),
            options: self.options.clone(),
            current: AtomicUsize::new(0),
            seen: Arc::clone(&self.seen),
            pulse: Pulse::default(),
            is_for: For::Requests,
        }
    }

    /// A transaction.
    pub(crate) async fn txn(&self, twice: Twice, txn: Txn) -> Result<TxnResponse, Fault> {
        let floor = self.seen.revision.load(Ordering::Acquire);
        let ask = |connection: Arc<Connection>| {
            let (mut kv, txn) = (connection.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        };
        let answer = self.request(twice, ask).await?;
        self.check(answer.header(), floor)?;
        Ok(answer)
    }

    /// Any request, at whichever member answers.
    pub(crate) async fn call<T, Asked>(&self, twice: Twice, ask: impl Fn(Client) -> Asked) -> Result<T, Fault>
    where
        Asked: Future<Output = Result<T, EtcdError>>,
    {
        self.request(twice, |connection| ask(connection.client.clone())).await
    }

    async fn request<T, Asked>(
        &self,
        twice: Twice,
        ask: impl Fn(Arc<Connection>) -> Asked,
    ) -> Result<T, Fault>
    where
        Asked: Future<Output = Result<T, EtcdError>>,
    {
        self.pulse.beat();
        let deadline = Instant::now() + TIME_LIMIT;
        let mut failures = 0;
        loop {
            let member = self.current.load(Ordering::Acquire);
            let left = deadline.saturating_duration_since(Instant::now());
            let fault = match timeout(self.share(twice, left), self.attempt(member, &ask)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(fault)) => fault,
                Err(_) => {
                    self.lose(member);
                    Fault::late()
                }
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

    async fn attempt<T, Asked>(
        &self,
        member: usize,
        ask: &impl Fn(Arc<Connection>) -> Asked,
    ) -> Result<T, Fault>
    where
        Asked: Future<Output = Result<T, EtcdError>>,
    {
        let connection = self.connected(member).await.map_err(Fault::before_sending)?;
        Ok(ask(connection).await?)
    }

    async fn connected(&self, member: usize) -> Result<Arc<Connection>, Fault> {
        let known = lock(&self.members[member]).clone();
        if let Some(connection) = known
            && !connection.lost.as_ref().is_some_and(Lost::is_lost)
        {
            return Ok(connection);
        }
        let (client, lost) = self.connect(&self.address.endpoints[member]).await?;
        let kv = client.kv_client().max_decoding_message_size(MAX_ANSWER);
        let connection = Arc::new(Connection { client, kv, lost });
        *lock(&self.members[member]) = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn connect(&self, endpoint: &str) -> Result<(Client, Option<Lost>), Fault> {
        let options = Some(self.options.clone());
        match (self.is_for, &self.address.tls) {
            (For::Requests, None) => {
                let connecting = timeout(CONNECT_LIMIT, plain::connect(endpoint, KEEP_ALIVE));
                let connected = connecting.await.map_err(|_| Fault::late())?;
                let (channel, lost) = connected.map_err(|error| Fault::unconnected(&*error))?;
                Ok((Client::from_channel(channel, options).await?, Some(lost)))
            }
            (For::Everything | For::Requests, tls) => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                Ok((Client::connect([format!("{scheme}://{endpoint}")], options).await?, None))
            }
        }
    }

    /// The connection to this member may be dead without our having noticed: the next request makes a new one.
    fn lose(&self, member: usize) {
        if let Some(lost) = lock(&self.members[member]).as_ref().and_then(|it| it.lost.as_ref()) {
            lost.lose();
        }
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
        let first = self.seen.cluster.compare_exchange(0, cluster, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err_and(|known| known != cluster) {
            return Err(Fault::another_cluster());
        }
        if revision < floor {
            return Err(Fault::rewound(floor, revision));
        }
        self.seen.revision.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }
}

fn unconnected(address: &Address) -> Vec<Mutex<Option<Arc<Connection>>>> {
    address.endpoints.iter().map(|_| Mutex::default()).collect()
}

fn lock<T>(slot: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
