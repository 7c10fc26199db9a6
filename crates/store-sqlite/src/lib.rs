//! The embedded default store: one SQLite file, shared by the processes of one machine.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `place` | the file: where it may lie, who may read it, what lies beside it |
//! | `connection` | connections, and how long they wait for other processes |
//! | `schema` | what is in the file, and how an older one is brought up to date |
//! | `clock` | the store's clock, the same for every process |
//! | `records` | the statements over records |
//! | `epoch` | revisions above all that were given out, for a file that was set back |
//! | `identity` | whether the paths still lead to the open files |
//! | `floor` | whether the file was set back while it is open |
//! | `writer` | one thread that takes every waiting transaction into one commit |
//! | `log` | how long the log is, and when it is moved into the file |
//! | `reader` | one thread that answers reads, so that none waits for a disk |
//! | `doubt` | what to do when the outcome of a commit is not known |
//! | `fault` | what SQLite's errors mean to the caller |
//!
//! # Files
//! | path | what it is |
//! | --- | --- |
//! | `<path>` | the records |
//! | `<path>-wal`, `<path>-shm` | SQLite's log and its index; they belong to the file: copy all or none |
//! | `<path>-bell/` | bells and presence files of the processes that have the store open (see [`bell_store::doorbell`]); nothing in it needs a backup |

mod clock;
mod connection;
mod doubt;
mod epoch;
mod fault;
mod floor;
mod identity;
mod log;
mod place;
mod reader;
mod records;
mod schema;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bell_store::doorbell::{Doorbell, Ring};
use bell_store::hub::Hub;
use bell_store::info::{Clock, Concern, Durability, FailOver, Limits, Push, Scope, Warning};
use bell_store::presence::{KernelLocks, Unknown};
use bell_store::{
    Error, Info, Kind, Name, Outcome, Presence, Result, Revision, Snapshot, Store, Timestamp, Txn, Watch,
    mount,
};

use clock::StoreClock;
use doubt::Doubt;
use floor::Floor;
use identity::OpenFiles;
use place::{Access, Place};
use reader::{Question, Reader, Source};
use writer::{Shared, Writer};

/// How long those who wait for a change of a store that can't be written wait before they look again.
const READ_ONLY_INTERVAL: Duration = Duration::from_secs(1);

/// Expectations, and writes, in one transaction. One fsync is shared by as many records as it carries, and the engine sets no
/// limit of its own; a transaction of this many takes a few milliseconds, for which all others wait.
const TXN_OPS: usize = 500;

/// A store in a SQLite file. Dropped, it finishes what it was asked for and closes the file.
pub struct Sqlite {
    info: Info,
    clock: Arc<StoreClock>,
    hub: Arc<Hub>,
    presence: Box<dyn Presence>,
    reader: Reader,
    /// `None`: the file can't be written.
    writer: Option<Writer>,
}

impl Sqlite {
    /// Opens the store at `path`, created if it is missing: the file and its folder for this user alone.
    ///
    /// A file that can't be written is opened for reading; commits then fail with [`Kind::ReadOnly`].
    /// It does blocking I/O, and waits while another process is opening the same file.
    ///
    /// # Errors
    /// With a hint: the path is no file, lies on a network file system, can't be reached, belongs to
    /// another program or to a newer Bellwether, or is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let open = || {
            let place = Place::find(path)?;
            match place.access {
                Access::Full => Self::open_for_writing(place),
                Access::ReadOnly => Self::open_for_reading(&place),
            }
        };
        match open() {
            // Replaced just now, or given another inode by an overlay file system when it was opened for writing.
            Err(error) if error.kind() == Kind::Replaced => open(),
            opened => opened,
        }
    }

    /// Begins a new epoch of the store at `path`, for an operator who has brought back an older copy of it. Answers its
    /// first revision, which is above all that were given out, unless the wall clock was set back since. Others may have the store open.
    ///
    /// It does blocking I/O.
    ///
    /// # Errors
    /// As for [`Self::open`]; there is no store, or it can't be written.
    pub fn raise_epoch(path: &Path) -> Result<Revision> {
        epoch::raise(path)
    }

    /// How many commits of the engine it took so far: a metric. Transactions that waited together share
    /// one, so under load this grows far more slowly than their number.
    pub fn batches(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::batches)
    }

    fn open_for_writing(place: Place) -> Result<Self> {
        let mut connection = connection::writing(&place)?;
        let clock = Arc::new(schema::prepare(&mut connection, &place)?);
        let (hub, doubt) = (Arc::new(Hub::default()), Arc::new(Doubt::default()));
        let presence = KernelLocks::open(&place.bell())?;
        let heard = Arc::clone(&hub);
        let doorbell = Doorbell::open(&place.bell(), move |ring| match ring {
            Ring::Changed => heard.look(),
            Ring::Died => heard.stir(),
        })?;
        let info = info(&place, doorbell.push());
        let reading = connection::reading(&place)?;
        let files = OpenFiles::remember(&place).map_err(|fault| fault.error(connection::doing(&place)))?;
        let (files, floor) = (Arc::new(files), Arc::new(Floor::default()));
        let source = Source {
            connection: reading,
            files: Arc::clone(&files),
            clock: Arc::clone(&clock),
            doubt: Arc::clone(&doubt),
            floor: Arc::clone(&floor),
        };
        let reader = Reader::start(source)?;
        let (clock_of_commits, waiting) = (Arc::clone(&clock), Arc::clone(&hub));
        let shared = Shared { place, files, clock: clock_of_commits, hub: waiting, doorbell, doubt, floor };
        let writer = Writer::start(connection, shared)?;
        Ok(Self { info, clock, hub, presence: Box::new(presence), reader, writer: Some(writer) })
    }

    fn open_for_reading(place: &Place) -> Result<Self> {
        let connection = connection::reading(place)?;
        let clock = Arc::new(schema::inspect(&connection, place)?);
        let files = OpenFiles::remember(place).map_err(|fault| fault.error(connection::doing(place)))?;
        let (doubt, floor) = (Arc::default(), Arc::default());
        let source = Source { connection, files: Arc::new(files), clock: Arc::clone(&clock), doubt, floor };
        let reader = Reader::start(source)?;
        let interval_ms = u64::try_from(READ_ONLY_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let mut info = info(place, Push::Poll { interval_ms });
        info.notices_death = false;
        info.warnings.push(Warning::new(
            Concern::Commits,
            "the file can't be written; make it and its folder writable to run anything",
        ));
        Ok(Self { info, clock, hub: Arc::default(), presence: Box::new(Unknown), reader, writer: None })
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.info.location).finish_non_exhaustive()
    }
}

fn info(place: &Place, push: Push) -> Info {
    let mut warnings = Vec::new();
    let durability = match mount::is_in_memory(&place.file) {
        Ok(false) => Durability::Power,
        Ok(true) | Err(_) => {
            let words = "the file is in memory and gone with the power; move it to a disk";
            warnings.push(Warning::new(Concern::Durability, words));
            Durability::Process
        }
    };
    if let Push::Poll { interval_ms } = push {
        let words = format!(
            "changes by other processes are noticed up to {interval_ms} ms late; raise fs.inotify.max_user_instances"
        );
        warnings.push(Warning::new(Concern::Push, words));
    }
    Info {
        scheme: "sqlite",
        location: place.file.display().to_string(),
        scope: Scope::Host,
        durability,
        fail_over: FailOver::None,
        clock: Clock::Boottime,
        push,
        notices_death: true,
        limits: Limits { txn_ops: TXN_OPS, ..Limits::CONTRACT },
        warnings,
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, "start a thread for the store")
        .hint("Raise the limit on threads (ulimit -u).")
        .because(error)
}

#[async_trait]
impl Store for Sqlite {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        self.reader.ask(Question::Names(names.to_vec())).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let limit = limit.min(self.info.limits.page);
        self.reader.ask(Question::Range { prefix: prefix.to_owned(), from: from.to_owned(), limit }).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        let called = self.clock.now();
        txn.check(&self.info.limits)?;
        let writer = self.writer.as_ref().ok_or_else(|| {
            Error::new(Kind::ReadOnly, format!("write to {}", self.info.location))
                .hint("Make the file and its folder writable for this user, then start again.")
        })?;
        writer.commit(txn, called).await
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        if self.writer.is_none() {
            // Nobody rings here. Returning for no reason is allowed, and makes the caller look again.
            tokio::time::sleep(READ_ONLY_INTERVAL).await;
            return Ok(());
        }
        self.hub.changed(self, watch).await
    }

    fn stirs(&self) -> u64 {
        self.hub.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        &*self.presence
    }
}
