//! The store: what it promises, and the way of each request to the threads that do the work.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bell_store::doorbell::{Doorbell, POLL_INTERVAL, Ring};
use bell_store::group::Group;
use bell_store::hub::Hub;
use bell_store::info::{Clock, Concern, Durability, FailOver, Info, Limits, Push, Scope, Warning};
use bell_store::mount::Mount;
use bell_store::presence::{self, KernelLocks};
use bell_store::record::{Name, Revision, Snapshot, Timestamp};
use bell_store::txn::{Outcome, Txn, Watch};
use bell_store::{Error, Kind, Presence, Result, Store, clock};

use crate::append::Nonces;
use crate::dir::Dir;
use crate::epoch;
use crate::fault;
use crate::lock::Lock;
use crate::reader::{Ask, Question, Reader};
use crate::set_up::set_up;
use crate::suitability::{Suitability, judge};
use crate::view::Reach;
use crate::writer::{Job, Shared, Writer};

/// How a folder is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Who uses the folder.
    pub sharing: Sharing,
}

/// Who uses a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// As many as its file system keeps apart; if it can't even say, the folder is refused.
    #[default]
    AsMounted,
    /// One machine alone: somebody vouches for it, so that also a file system without locks between
    /// machines can be used.
    OneHost,
}

/// A store in a folder. Dropped, it finishes what was handed in.
pub struct Folder {
    info: Info,
    shared: Arc<Shared>,
    writer: Group<Job>,
    reader: Arc<Group<Ask>>,
    presence: Option<KernelLocks>,
    /// When it was last looked for changes, in milliseconds since boot; over a network only.
    looked_ms: AtomicU64,
}

/// What the file system lets us promise.
struct Promise {
    reach: Reach,
    durability: Durability,
    warnings: Vec<Warning>,
}

impl Folder {
    /// Opens the store in a folder; created, for this user alone, if there is nothing at the path.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] if the file system can't keep the contract or the folder is not a store,
    /// [`Kind::Corrupt`] if what is stored can't be trusted, and those of the system.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, Options::default())
    }

    /// As [`Folder::open`], with options.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_with(path: &Path, options: Options) -> Result<Self> {
        let dir = Arc::new(Dir::open(path)?);
        let promise = promise(&dir, options)?;
        Self::open_as(dir, promise)
    }

    /// Begins a new epoch of the store at `path`, for an operator who has brought back an older copy of it. Answers its
    /// first revision, which is above all that were given out, unless the wall clock was set back since.
    ///
    /// # Errors
    /// As [`Folder::open`]; or there is no store.
    pub fn raise_epoch(path: &Path) -> Result<Revision> {
        epoch::existing(path)?;
        let dir = Arc::new(Dir::open(path)?);
        let reach = promise(&dir, Options::default())?.reach;
        epoch::raise(&dir, reach)
    }

    fn open_as(dir: Arc<Dir>, promise: Promise) -> Result<Self> {
        let (lock, mut nonces) = (Lock::open(&dir)?, Nonces::new()?);
        let (view, clock) = set_up(&dir, &lock, promise.reach, &mut nonces)?;
        let reach = promise.reach;
        let hub = Arc::new(Hub::default());
        let shared = Arc::new(Shared { dir, reach, view: Mutex::new(view), clock, hub });
        let reader = Arc::new(start_reader(&shared)?);
        let doorbell = match reach {
            Reach::Host => Some(hang_doorbell(&shared, &reader)?),
            Reach::Network => None,
        };
        let presence = match reach {
            Reach::Host => Some(KernelLocks::open(shared.dir.path())?),
            Reach::Network => None,
        };
        let info = info(shared.dir.path(), promise, doorbell.as_ref().map(Doorbell::push));
        let ring = move || doorbell.iter().for_each(Doorbell::ring);
        let mut writer = Writer::new(Arc::clone(&shared), lock, nonces, ring);
        let writer =
            Group::start("bell-fs-writer", move |jobs| writer.commit_all(jobs)).map_err(no_thread)?;
        Ok(Self { info, shared, writer, reader, presence, looked_ms: AtomicU64::new(0) })
    }

    async fn ask(&self, question: Question) -> Result<Snapshot> {
        let (ask, answer) = Ask::new(question);
        let closed =
            || Error::new(Kind::Unavailable, "read from the store: its thread has ended").hint(RESTART);
        self.reader.submit(ask).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Over a network nobody tells of changes, so those who wait look for them; many who wait look together.
    async fn look_again_and_again(&self) {
        let interval_ms = u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now_ms = u64::try_from(clock::boottime().as_millis()).unwrap_or(u64::MAX);
            let is_due = |looked_ms: u64| (now_ms >= looked_ms + interval_ms / 2).then_some(now_ms);
            if self.looked_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok()
                && let Err(error) = self.ask(Question::Look).await
            {
                tracing::warn!(%error, "changes by other machines could not be looked for");
            }
        }
    }
}

const RESTART: &str = "Restart bell, and look in its log for the reason.";

#[async_trait]
impl Store for Folder {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn now(&self) -> Result<Timestamp> {
        match self.shared.reach {
            Reach::Host => self.shared.clock.read(),
            Reach::Network => Ok(self.ask(Question::Read(Vec::new())).await?.now),
        }
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        self.info.limits.check_read(names)?;
        self.ask(Question::Read(names.to_vec())).await
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        self.info.limits.check_scan(prefix, from)?;
        let limit = limit.min(self.info.limits.page);
        self.ask(Question::Scan { prefix: prefix.to_owned(), from: from.to_owned(), limit }).await
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome> {
        txn.check(&self.info.limits)?;
        let (job, answer) = Job::new(txn);
        self.writer.submit(job).map_err(|_| {
            Error::new(Kind::Unavailable, "commit to the store: its thread has ended").hint(RESTART)
        })?;
        answer.await.map_err(|_| {
            Error::new(Kind::Unknown, "learn what became of a commit: the thread has ended").hint(RESTART)
        })?
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        let changed = self.shared.hub.changed(self, watch);
        match self.shared.reach {
            Reach::Host => changed.await,
            Reach::Network => tokio::select! {
                done = changed => done,
                () = self.look_again_and_again() => Ok(()),
            },
        }
    }

    fn stirs(&self) -> u64 {
        self.shared.hub.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        match &self.presence {
            Some(locks) => locks,
            None => &presence::Unknown,
        }
    }
}

fn start_reader(shared: &Arc<Shared>) -> Result<Group<Ask>> {
    let mut reader = Reader::new(Arc::clone(shared), Lock::open(&shared.dir)?);
    Group::start("bell-fs-reader", move |asked| reader.answer_all(asked)).map_err(no_thread)
}

fn hang_doorbell(shared: &Shared, reader: &Arc<Group<Ask>>) -> Result<Doorbell> {
    let (hub, reader) = (Arc::clone(&shared.hub), Arc::clone(reader));
    Doorbell::open(shared.dir.path(), move |ring| match ring {
        // The reading thread finds out what changed and wakes those who wait for that.
        Ring::Changed => drop(reader.submit(Ask::new(Question::Look).0)),
        Ring::Died => hub.stir(),
    })
}

fn promise(dir: &Dir, options: Options) -> Result<Promise> {
    let mount = Mount::of(dir.as_fd()).map_err(|error| {
        let what = format!("learn on which file system {} is", dir.path().display());
        Error::new(Kind::Unsupported, what).hint("Mount /proc.").because(error)
    })?;
    let vouched =
        "somebody vouched that one machine alone uses the folder; a second one is noticed, perhaps late";
    let host = |durability, warnings| Promise { reach: Reach::Host, durability, warnings };
    Ok(match (judge(&mount), options.sharing) {
        (Suitability::Local(durability, warning), _) => host(
            durability,
            warning.map(|words| Warning::new(Concern::Durability, words)).into_iter().collect(),
        ),
        (Suitability::OneHost(words), _) => {
            host(Durability::Power, vec![Warning::new(Concern::Sharing, words)])
        }
        (Suitability::Network, Sharing::AsMounted) => Promise {
            reach: Reach::Network,
            durability: Durability::Power,
            warnings: vec![Warning::new(Concern::Durability, SYNC_EXPORT)],
        },
        (Suitability::Network | Suitability::Refused { .. }, Sharing::OneHost) => {
            host(Durability::Power, vec![Warning::new(Concern::Sharing, vouched)])
        }
        (Suitability::Refused { reason, instead }, Sharing::AsMounted) => {
            let (path, point) = (dir.path().display(), mount.point);
            return Err(
                Error::new(Kind::Unsupported, format!("use {path} on {point}: {reason}")).hint(instead)
            );
        }
    })
}

const SYNC_EXPORT: &str = "commits survive a power cut of the file server only if it exports the folder with sync, as is the default";

fn info(path: &Path, promise: Promise, push: Option<Push>) -> Info {
    let interval_ms = u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX);
    let (scope, clock, notices_death) = match promise.reach {
        Reach::Host => (Scope::Host, Clock::Boottime, true),
        Reach::Network => (Scope::Distributed, Clock::FileServer, false),
    };
    Info {
        scheme: "file",
        location: path.display().to_string(),
        scope,
        durability: promise.durability,
        fail_over: FailOver::None,
        clock,
        push: push.unwrap_or(Push::Poll { interval_ms }),
        notices_death,
        limits: Limits::CONTRACT,
        warnings: promise.warnings,
    }
}

fn no_thread(error: std::io::Error) -> Error {
    fault::of_io(error, "start a thread of the store")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_store::suite::Fixture;

    /// A folder on this machine, used as if it were on a file server: with its locks and time stamps only.
    struct OverNetwork(tempfile::TempDir);

    #[async_trait]
    impl Fixture for OverNetwork {
        async fn open(&self) -> Result<Arc<dyn Store>> {
            let dir = Arc::new(Dir::open(self.0.path())?);
            let promise =
                Promise { reach: Reach::Network, durability: Durability::Power, warnings: Vec::new() };
            Ok(Arc::new(Folder::open_as(dir, promise)?))
        }

        fn survives_reopen(&self) -> bool {
            true
        }
    }

    bell_store::store_suite!(OverNetwork(tempfile::tempdir().unwrap()));

    #[tokio::test]
    async fn a_folder_used_over_a_network_is_refused_on_the_server_itself() {
        let folder = OverNetwork(tempfile::tempdir().unwrap());
        drop(folder.open().await.unwrap());
        assert_eq!(Folder::open(folder.0.path()).map(|_| ()).unwrap_err().kind(), Kind::Unsupported);
    }

    #[tokio::test]
    async fn a_folder_says_what_it_promises() {
        let temp = tempfile::tempdir().unwrap();
        let local = Folder::open(&temp.path().join("local")).unwrap();
        let info = local.info();
        assert_eq!((info.scope, info.clock, info.push), (Scope::Host, Clock::Boottime, Push::Push));
        assert!(info.notices_death);
        let shared = OverNetwork(tempfile::tempdir().unwrap()).open().await.unwrap();
        let info = shared.info();
        assert_eq!((info.scope, info.clock), (Scope::Distributed, Clock::FileServer));
        assert!(matches!(info.push, Push::Poll { .. }) && !info.notices_death);
    }
}
