//! The store on PostgreSQL: a schema of its own in a database that somebody already runs.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `address` | the URL, and what of it may be shown |
//! | `server` | whether a server can keep a store, and what it promises |
//! | `schema` | what is in the schema, and how it gets there; the statements are in `sql/` |
//! | `route`, `tls` | how to connect, encrypted where the address asks for it |
//! | `link` | a connection that comes back |
//! | `writer` | takes every waiting transaction into one commit |
//! | `home` | a shorter way for those on the runtime that opened the store |
//! | `line` | who goes together |
//! | `ways` | whether a batch goes by one statement or by the server's procedure |
//! | `batch` | those transactions as both take them |
//! | `alone` | one transaction as the shortest statement takes it |
//! | `reader` | reads, the time, and what this process knows of the store |
//! | `records` | records on their way from the server |
//! | `clock` | noticing that the server's clock has jumped |
//! | `listener` | hearing of what others commit |
//! | `fault` | what PostgreSQL's errors mean to the caller |
//!
//! A store has one thread with an executor of its own, which owns three connections: to commit, to read and to
//! listen. Callers may live on any executor, or on several; one with several threads that opened the store has two
//! more connections of its own.

mod address;
mod alone;
mod batch;
mod clock;
mod fault;
mod home;
mod line;
mod link;
mod listener;
mod reader;
mod records;
mod route;
mod schema;
mod server;
mod tls;
mod ways;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bell_store::clock::boottime;
use bell_store::hub::Hub;
use bell_store::info::Push;
use bell_store::topic::Topic;
use bell_store::{
    Error, Info, Kind, Name, Outcome, Result, Revision, Snapshot, Store, Timestamp, Txn, Watch,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use address::Address;
use home::Home;
use link::Link;
use listener::{Listener, Wanted};
use reader::{Question, Reader};
use route::Route;
use server::Server;
use writer::{Job, Writer};

/// A store in a schema of a PostgreSQL database. Dropped, it closes its connections.
pub struct Postgres {
    info: Info,
    hub: Arc<Hub>,
    batches: Arc<AtomicU64>,
    home: Option<Home>,
    jobs: mpsc::UnboundedSender<Job>,
    questions: mpsc::UnboundedSender<Question>,
    ears: mpsc::UnboundedSender<Wanted>,
    /// What is listened to since somebody first watched it.
    topics: Mutex<BTreeSet<Topic>>,
}

impl Postgres {
    /// Opens the store at `postgres://user:password@host:port/database?schema=bell`, created if it is missing.
    ///
    /// Dropped half-way, it leaves the store created or not.
    ///
    /// # Errors
    /// With a hint: the address can't be read, the server can't be reached, refuses the user, can't be written
    /// or is too old, or the schema belongs to something else or to a newer Bellwether.
    pub async fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let home = Home::found().await;
        let (ready, opened) = oneshot::channel();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(serve(address, home, ready)),
                Err(error) => {
                    let _ = ready.send(Err(no_thread(error)));
                }
            }
        };
        std::thread::Builder::new().name("bell-postgres".to_owned()).spawn(work).map_err(no_thread)?;
        opened.await.unwrap_or_else(|_| Err(ended(Kind::Unavailable)))
    }

    /// How many commits of the server it took so far: a metric. Transactions that waited together share
    /// one, so under load this grows far more slowly than their number.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Leaves every revision that may have been handed out behind, and trusts the server as it is now: what an
    /// operator does after [`Kind::Rewound`], when it is clear what was lost. Answers with the new revision.
    ///
    /// # Errors
    /// If the server can't be reached or refuses; after [`Kind::Unknown`] it may be done again.
    pub async fn raise_epoch(&self) -> Result<Revision> {
        self.ask(Question::RaiseEpoch).await
    }

    /// Sees to it that changes of what is watched are heard of.
    async fn listen(&self, watch: &Watch) -> Result<()> {
        for topic in watch.topics() {
            if self.topics().contains(&topic) {
                continue;
            }
            let (done, listening) = oneshot::channel();
            self.ears.send((topic.clone(), done)).map_err(|_| ended(Kind::Unavailable))?;
            listening.await.map_err(|_| deaf())?;
            self.topics().insert(topic);
        }
        Ok(())
    }

    /// The shorter way, if the caller can take it.
    fn here(&self) -> Option<&Home> {
        self.home.as_ref().filter(|home| home.is_here())
    }

    fn topics(&self) -> MutexGuard<'_, BTreeSet<Topic>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<Result<T>>) -> Question) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(question(answer)).map_err(|_| ended(Kind::Unavailable))?;
        answered.await.unwrap_or_else(|_| Err(ended(Kind::Unavailable)))
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("location", &self.info.location).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Postgres {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        if let Some(home) = self.here() {
            return home.reader().now().await.map_err(|fault| fault.error("ask for the time"));
        }
        self.ask(Question::Now).await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        if let Some(home) = self.here() {
            return home.reader().read(names).await.map_err(|fault| fault.error("read"));
        }
        self.ask(|answer| Question::Names(names.to_vec(), answer)).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let (prefix, from, limit) = (prefix.to_owned(), from.to_owned(), limit.min(self.info.limits.page));
        self.ask(|answer| Question::Range { prefix, from, limit, answer }).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        let called = boottime();
        txn.check(&self.info.limits)?;
        let (answer, answered) = oneshot::channel();
        let job = Job { txn, called, answer };
        let unsent = match self.here() {
            Some(home) => home.commit(job).await.err(),
            None => Some(job),
        };
        if let Some(job) = unsent {
            self.jobs.send(job).map_err(|_| ended(Kind::Unavailable))?;
        }
        answered.await.unwrap_or_else(|_| Err(ended(Kind::Unknown)))
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        self.listen(watch).await?;
        self.hub.changed(self, watch).await
    }
}

/// The life of a store's thread: from opening it until its handle was dropped.
async fn serve(address: Address, home: Option<Handle>, ready: oneshot::Sender<Result<Postgres>>) {
    let opened = match open(&address, home).await {
        Ok(opened) => opened,
        Err(error) => {
            // Whoever asked may have gone.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let (jobs, waiting) = mpsc::unbounded_channel();
    let (questions, asked) = mpsc::unbounded_channel();
    let Opened { info, hub, reader, writer, home, listening, ears } = opened;
    let batches = Arc::clone(writer.batches());
    let topics = Mutex::default();
    let _ = ready.send(Ok(Postgres { info, hub, batches, home, jobs, questions, ears, topics }));
    tokio::join!(Arc::new(writer).serve(waiting), reader.serve(asked));
    listening.abort();
}

struct Opened {
    info: Info,
    hub: Arc<Hub>,
    reader: Arc<Reader>,
    writer: Writer,
    home: Option<Home>,
    listening: tokio::task::JoinHandle<()>,
    ears: mpsc::UnboundedSender<Wanted>,
}

async fn open(address: &Address, home: Option<Handle>) -> Result<Opened> {
    let opening = |fault: fault::Fault| fault.error(format!("open the store {}", address.location()));
    let (route, schema) = (Route::to(address)?, &address.schema);
    let reader = Arc::new(Reader::new(Link::new(route.clone()), schema));
    let session = reader.link().session().await.map_err(opening)?;
    let server = Server::inspect(&session).await.map_err(opening)?;
    server.check()?;
    schema::prepare(&session, address).await?;
    reader.wind_clock().await.map_err(opening)?;
    let (hub, sender) = (Arc::new(Hub::default()), random_name()?);
    let (ears, wanted) = mpsc::unbounded_channel();
    let listener =
        Listener::new(route.clone(), schema, Arc::clone(&hub), Arc::clone(&reader), sender.clone(), wanted);
    let (push, listening) = listener.start().await.map_err(opening)?;
    let link = || match push {
        // Whoever hears itself has a connection of its own.
        Push::Push => Link::direct(route.clone(), schema),
        Push::Poll { .. } => Link::new(route.clone()),
    };
    let writer = Writer::new(link(), Arc::clone(&reader), Arc::clone(&hub), schema, sender);
    let home = home.map(|runtime| {
        let reader = Arc::new(reader.another(link(), schema));
        Home::on(&runtime, writer.another(link(), Arc::clone(&reader)), reader)
    });
    Ok(Opened { info: server.info(address, push), hub, reader, writer, home, listening, ears })
}

/// Tells this handle from every other one.
fn random_name() -> Result<String> {
    let number = getrandom::u64().map_err(|error| {
        Error::new(Kind::Unavailable, "open the store: the system gives no random numbers")
            .because(error.to_string())
    })?;
    Ok(format!("{number:016x}"))
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, "start a thread for the store")
        .hint("Raise the limit on threads (ulimit -u).")
        .because(error)
}

fn deaf() -> Error {
    Error::new(Kind::Unavailable, "wait for changes: the server does not take who listens")
        .hint("Check that the server runs and can be reached; then try again.")
}

fn ended(kind: Kind) -> Error {
    Error::new(kind, "ask the store: its thread has ended")
        .hint("Start the process again, and report what it logged.")
}
