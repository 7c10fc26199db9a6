//! One thread per store that owns the connection: requests come to it from any runtime, and it comes back by
//! itself when the server was gone.
//!
//! While there is no connection, a request waits for the attempt to connect that is under way, or sets off
//! one, and shares its fate. Those who wait for changes are told to look whenever an attempt has ended, so
//! that nobody sleeps over a change, and nobody waits for a server that is gone.
//!
//! Commits go out one batch at a time: those that are handed in meanwhile wait and go together. Questions
//! wait for nobody. Those on the runtime that opened the store have a shorter way: see [`crate::express`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bell_store::topic::Topic;
use bell_store::{Error, Kind, Name, Outcome, Result, Revision, Snapshot, Txn};
use redis::PushInfo;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::address::{Address, Security};
use crate::batch;
use crate::express::Express;
use crate::fault::Fault;
use crate::notice::Notice;
use crate::reply::Rewound;
use crate::server::Server;
use crate::session::{Ears, Session, Shared};

/// How long a request may take. A lease of the shortest length is lost by then anyway.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// How long it may take to find the server, connect and log in.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// How often the server and its clock are looked at, so that a connection that died in silence is noticed.
const WATCH_EVERY: Duration = Duration::from_secs(3);

/// Between two attempts to connect, when nobody asks for anything.
const PAUSE: Duration = Duration::from_secs(1);

/// Between two attempts in any case: a refused connection costs nothing, and callers may ask in a loop.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Jobs taken at once at the most, so that what is pushed is heard in between.
const MAX_JOBS: usize = 256;

/// A question, and where the answer goes.
#[derive(Debug)]
pub(crate) enum Job {
    Read(Vec<Name>, oneshot::Sender<Result<Snapshot>>),
    Scan { prefix: String, from: String, limit: usize, answer: oneshot::Sender<Result<Snapshot>> },
    Commit(Commit),
    Listen(Topic, oneshot::Sender<Result<()>>),
    Raise(oneshot::Sender<Result<Revision>>),
}

/// A transaction, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) txn: Txn,
    pub(crate) answer: oneshot::Sender<Result<Outcome>>,
}

/// What the first connection found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) server: Server,
    pub(crate) rewound: Option<Rewound>,
}

/// The way to the thread. It ends when this is dropped.
pub(crate) struct Link {
    jobs: UnboundedSender<Job>,
    express: Option<Arc<Express>>,
}

impl Link {
    /// Starts the thread and waits until it has connected. Dropped half-way, the thread ends.
    pub(crate) async fn open(address: Address, shared: Arc<Shared>) -> Result<(Self, Found)> {
        let (jobs, asked) = mpsc::unbounded_channel();
        let (opened, found) = oneshot::channel();
        let location = address.location();
        let (near, known) = (address.clone(), Arc::clone(&shared));
        let thread = Thread { address, shared, jobs: asked };
        std::thread::Builder::new()
            .name("bell-redis".to_owned())
            .spawn(move || thread.run(opened))
            .map_err(|error| no_thread().because(error))?;
        let found = found.await.map_err(|_| no_thread())?;
        let found = found.map_err(|fault| fault.error(&format!("open the store at {location}")))?;
        let express = Express::open(&near, &known, jobs.clone()).await;
        Ok((Self { jobs, express }, found))
    }

    /// Commits, by the shortest way.
    pub(crate) async fn commit(&self, txn: Txn) -> Result<Outcome> {
        let txn = match &self.express {
            Some(express) => match express.commit(txn).await {
                Ok(outcome) => return outcome,
                Err(txn) => txn,
            },
            None => txn,
        };
        // In a box, since it is rare: nobody else keeps room for it.
        Box::pin(self.ask(|answer| Job::Commit(Commit { txn, answer }))).await
    }

    /// Reads records, by the shortest way.
    pub(crate) async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        if let Some(express) = &self.express
            && let Some(answered) = express.read(names).await
        {
            return answered;
        }
        let names = names.to_vec();
        self.ask(|answer| Job::Read(names, answer)).await
    }

    /// Hands in a question made for this channel, and waits for its answer.
    pub(crate) async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T>>) -> Job) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = job(answer);
        let (doing, lost) = (job.doing(), job.lost());
        if self.jobs.send(job).is_err() {
            return Err(lost.of_question().error(doing));
        }
        // Dropped without an answer: the connection went away under it.
        answered.await.unwrap_or_else(|_| Err(lost.error(doing)))
    }
}

pub(crate) const COMMIT: &str = "commit";

impl Job {
    /// What is being done, to read after «could not».
    fn doing(&self) -> &'static str {
        match self {
            Self::Read(..) => "read records",
            Self::Scan { .. } => "scan records",
            Self::Commit(_) => COMMIT,
            Self::Listen(..) => "listen for changes",
            Self::Raise(_) => "raise the epoch",
        }
    }

    /// What it means that no answer came.
    fn lost(&self) -> Fault {
        match self {
            Self::Read(..) | Self::Scan { .. } | Self::Listen(..) => connection_lost().of_question(),
            Self::Commit(_) | Self::Raise(_) => connection_lost(),
        }
    }

    fn fail(self, fault: &Fault) {
        let error = fault.error(self.doing());
        // Whoever stopped waiting needs no answer, here as below.
        match self {
            Self::Read(_, answer) | Self::Scan { answer, .. } => drop(answer.send(Err(error))),
            Self::Commit(commit) => drop(commit.answer.send(Err(error))),
            Self::Listen(_, answer) => drop(answer.send(Err(error))),
            Self::Raise(answer) => drop(answer.send(Err(error))),
        }
    }

    /// Asks the server and answers. Says what went wrong, if anything did.
    async fn carry_out(self, session: Session) -> Option<Fault> {
        let (doing, lost) = (self.doing(), self.lost());
        let late = || late(lost);
        match self {
            Self::Read(names, answer) => give(answer, doing, read_within(&session, &names).await),
            Self::Scan { prefix, from, limit, answer } => {
                give(answer, doing, within(late, session.scan(&prefix, &from, limit)).await)
            }
            Self::Commit(commit) => carry_out(vec![commit], session).await,
            Self::Listen(topic, answer) => give(answer, doing, within(late, session.listen(&topic)).await),
            Self::Raise(answer) => give(answer, doing, within(late, session.raise_epoch()).await),
        }
    }
}

pub(crate) fn connection_lost() -> Fault {
    Fault::no_answer("the connection to the server was lost")
}

/// Commits within the time that a request may take.
pub(crate) async fn commit_within(
    txns: &[Txn],
    session: &Session,
) -> Result<Vec<Result<Outcome, Fault>>, Fault> {
    within(|| late(Fault::no_answer("")), session.commit(txns)).await
}

/// What it means that a commit is missing from the answer.
pub(crate) fn no_outcome() -> Result<Outcome, Fault> {
    Err(Fault::no_answer("the server's answer says nothing of it"))
}

/// Reads records within the time that a request may take.
pub(crate) async fn read_within(session: &Session, names: &[Name]) -> Result<Snapshot, Fault> {
    within(|| late(connection_lost().of_question()), session.read(names)).await
}

/// What a request that got lost like this is if it was only late.
fn late(lost: Fault) -> Fault {
    Fault { why: format!("no answer within {} s", REQUEST_LIMIT.as_secs()), elsewhere: false, ..lost }
}

/// Commits these together and answers. Says what went wrong, if anything did with all of them.
pub(crate) async fn carry_out(commits: Vec<Commit>, session: Session) -> Option<Fault> {
    let (txns, answers): (Vec<_>, Vec<_>) =
        commits.into_iter().map(|commit| (commit.txn, commit.answer)).unzip();
    match commit_within(&txns, &session).await {
        Ok(outcomes) => {
            let given = answers.into_iter().zip(outcomes);
            given.fold(None, |fault, (answer, outcome)| give(answer, COMMIT, outcome).or(fault))
        }
        Err(fault) => {
            for answer in answers {
                drop(answer.send(Err(fault.error(COMMIT))));
            }
            Some(fault)
        }
    }
}

async fn within<T>(
    late: impl FnOnce() -> Fault,
    asked: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout(REQUEST_LIMIT, asked).await.unwrap_or_else(|_| Err(late()))
}

fn give<T>(answer: oneshot::Sender<Result<T>>, doing: &str, answered: Result<T, Fault>) -> Option<Fault> {
    let fault = answered.as_ref().err().cloned();
    drop(answer.send(answered.map_err(|fault| fault.error(doing))));
    fault
}

/// The thread's own.
struct Thread {
    address: Address,
    shared: Arc<Shared>,
    jobs: UnboundedReceiver<Job>,
}

/// A connection, and what arrives on it unasked.
struct Connected {
    session: Session,
    rewound: Option<Rewound>,
    pushes: UnboundedReceiver<PushInfo>,
}

/// Why serving ended.
enum End {
    /// Nobody has the store open any more.
    Closed,
    /// The connection is of no use any more.
    Lost,
}

impl Thread {
    fn run(mut self, opened: oneshot::Sender<Result<Found, Fault>>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.serve_all(opened)),
            Err(error) => drop(opened.send(Err(Fault::unreachable(format!("no runtime: {error}"))))),
        }
    }

    async fn serve_all(&mut self, opened: oneshot::Sender<Result<Found, Fault>>) {
        let mut connected = match connect(&self.address, &self.shared).await {
            Ok(connected) => {
                let found = Found { server: connected.session.server().clone(), rewound: connected.rewound };
                drop(opened.send(Ok(found)));
                connected
            }
            Err(fault) => return drop(opened.send(Err(fault))),
        };
        let mut waiting = Vec::new();
        while let End::Lost = self.serve(connected, &mut waiting).await {
            tracing::warn!(store = self.address.location(), "lost the connection to the redis server");
            let Some(again) = self.reconnect(&mut waiting).await else { return };
            tracing::info!(store = self.address.location(), "connected to the redis server again");
            // Whatever happened meanwhile was not told.
            self.shared.hub.look();
            connected = again;
        }
    }

    /// Serves those who wait and those who come, until the connection or the last handle is gone. What was asked
    /// and not answered by then is dropped, which those who asked notice; commits that were not sent yet wait
    /// for the next connection.
    async fn serve(&mut self, mut connected: Connected, waiting: &mut Vec<Job>) -> End {
        let (mut asked, mut committing) = (JoinSet::new(), JoinSet::new());
        let mut unsent = VecDeque::new();
        let mut watch = interval_at(Instant::now() + WATCH_EVERY, WATCH_EVERY);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            for job in waiting.drain(..) {
                match job {
                    Job::Commit(commit) => unsent.push_back(commit),
                    question => drop(asked.spawn(question.carry_out(connected.session.clone()))),
                }
            }
            if committing.is_empty() && !unsent.is_empty() {
                let size = batch::size(unsent.iter().map(|commit: &Commit| &commit.txn));
                committing.spawn(carry_out(unsent.drain(..size).collect(), connected.session.clone()));
            }
            let is_lost = tokio::select! {
                // What ended comes first: whoever heard that the server is the wrong one, and asks again, is not to
                // be sent there once more.
                biased;
                Some(ended) = asked.join_next() => is_elsewhere(&ended),
                Some(ended) = committing.join_next() => is_elsewhere(&ended),
                push = connected.pushes.recv() => self.hear(push.as_ref().map(Notice::of)),
                _ = watch.tick() => {
                    asked.spawn(look_after(connected.session.clone()));
                    false
                }
                // Together, so that those who ask at the same time go together.
                count = self.jobs.recv_many(waiting, MAX_JOBS) => match count {
                    0 => return End::Closed,
                    _ => false,
                },
            };
            if is_lost {
                waiting.extend(unsent.into_iter().map(Job::Commit));
                return End::Lost;
            }
        }
    }

    /// Passes on what was pushed. Whether it was the end of the connection.
    fn hear(&self, notice: Option<Option<Notice>>) -> bool {
        match notice {
            Some(Some(Notice::Written(names))) => self.shared.hub.committed(&names),
            Some(Some(Notice::Anything)) => self.shared.hub.look(),
            Some(None) => {}
            Some(Some(Notice::Disconnected)) | None => return true,
        }
        false
    }

    /// Connects again, however long it takes. `None`: nobody has the store open any more.
    async fn reconnect(&mut self, waiting: &mut Vec<Job>) -> Option<Connected> {
        loop {
            let fault = match self.attempt(waiting).await? {
                Ok(connected) => return Some(connected),
                Err(fault) => fault,
            };
            for job in waiting.drain(..) {
                job.fail(&fault);
            }
            self.shared.hub.look();
            sleep(SHORTEST_PAUSE).await;
            tokio::select! {
                job = self.jobs.recv() => waiting.push(job?),
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// One attempt. What is asked meanwhile waits for it.
    async fn attempt(&mut self, waiting: &mut Vec<Job>) -> Option<Result<Connected, Fault>> {
        let connecting = connect(&self.address, &self.shared);
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                connected = &mut connecting => return Some(connected),
                job = self.jobs.recv() => waiting.push(job?),
            }
        }
    }
}

/// Whether another node must be asked from now on.
fn is_elsewhere(ended: &Result<Option<Fault>, JoinError>) -> bool {
    matches!(ended, Ok(Some(Fault { elsewhere: true, .. })))
}

async fn connect(address: &Address, shared: &Arc<Shared>) -> Result<Connected, Fault> {
    let (sender, pushes) = mpsc::unbounded_channel();
    let (session, rewound) = open_session(address, shared, Ears::Open, sender).await?;
    if let Some(why) = rewound {
        tracing::error!(store = address.location(), "{}", why.fault().why);
    }
    Ok(Connected { session, rewound, pushes })
}

/// Connects within the time that this may take.
pub(crate) async fn open_session(
    address: &Address,
    shared: &Arc<Shared>,
    ears: Ears,
    pushes: UnboundedSender<PushInfo>,
) -> Result<(Session, Option<Rewound>), Fault> {
    let late = || Fault {
        hint: match address.security {
            Security::Plain => "Check that the server runs and is not overloaded.",
            // A server that expects no TLS waits for the end of what it takes for a command.
            Security::Tls => {
                "Check that the server runs; if the port does not speak TLS, write redis:// for it."
            }
        },
        ..Fault::unreachable(format!("no answer within {} s", CONNECT_LIMIT.as_secs()))
    };
    let opening = Session::open(address, shared, ears, pushes);
    timeout(CONNECT_LIMIT, opening).await.unwrap_or_else(|_| Err(late()))
}

/// Looks after the connection: the answer says whether it is of use.
async fn look_after(session: Session) -> Option<Fault> {
    let late = || Fault::unreachable("the server does not answer");
    within(late, session.watch()).await.err()
}

fn no_thread() -> Error {
    Error::new(Kind::Unavailable, "start a thread for the store")
        .hint("Raise the limit on threads (ulimit -u).")
}
